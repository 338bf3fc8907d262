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
	return withoutProxy(cmp.Or(os.Getenv("NO_PROXY"), os.Getenv("no_proxy")), p.Services, p.Pods, linkRange)
}

func withoutProxy(former string, ranges ...netip.Prefix) []string {
	all := strings.Split(strings.TrimSpace(former), ",")
	if former == "" {
		all = nil
	}
	all = append(all, "localhost", "127.0.0.0/8", "::1", ".svc", "."+Domain)
	for _, r := range ranges {
		all = append(all, r.String())
	}
	value := strings.Join(all, ",")
	return []string{"NO_PROXY=" + value, "no_proxy=" + value}
}
