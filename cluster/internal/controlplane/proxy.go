package controlplane

import (
	"cmp"
	"net/netip"
	"os"
	"strings"
)

// linkRange has the addresses of all real nodes and of the host on their links: see realnode.Network.
var linkRange = netip.MustParsePrefix("10.112.0.0/12")

// Environment returns variables for the components of a cluster. Like all of Kubernetes they send requests
// through the proxy of HTTPS_PROXY, also those to the API server, the kubelet and Services. A proxy knows
// none of the cluster's addresses, so NO_PROXY names them beside the user's own.
func (p *Plane) Environment() []string {
	all := []string{
		cmp.Or(os.Getenv("NO_PROXY"), os.Getenv("no_proxy")),
		"localhost", "127.0.0.0/8", "::1", ".svc", "." + Domain, p.Services.String(), p.Pods.String(), linkRange.String(),
	}
	value := strings.TrimPrefix(strings.Join(all, ","), ",")
	return []string{"NO_PROXY=" + value, "no_proxy=" + value}
}
