package realnode

import (
	"net/netip"
	"testing"

	"github.com/pintle-go/pintle/cluster/internal/controlplane"
)

func TestNetworks(t *testing.T) {
	first := newNetwork(0)
	if first.Services != controlplane.ServiceCIDR || first.Pods != controlplane.PodCIDR {
		t.Errorf("the first network (%v, %v) is not that of a cluster without a real node", first.Services, first.Pods)
	}
	var all []netip.Prefix
	for number := range networks {
		n := newNetwork(number)
		if !n.Link.Contains(n.Host) || !n.Link.Contains(n.Node) || n.Host == n.Node {
			t.Errorf("network %d: %v and %v on %v", number, n.Host, n.Node, n.Link)
		}
		for _, p := range []netip.Prefix{n.Services, n.Pods, n.Link} {
			if p != p.Masked() || !p.Addr().IsPrivate() {
				t.Errorf("network %d: %v", number, p)
			}
			for _, other := range all {
				if p.Overlaps(other) {
					t.Errorf("network %d: %v overlaps with %v", number, p, other)
				}
			}
			all = append(all, p)
		}
	}
}

func TestDNSManifests(t *testing.T) {
	all, err := dnsManifests("dns:v1", netip.MustParseAddr("10.96.0.10"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 6 {
		t.Errorf("%d manifests", len(all))
	}
	for _, m := range all {
		if m.path == "" || m.path[0] != '/' || m.yaml == "" {
			t.Errorf("manifest %q: %q", m.path, m.yaml)
		}
	}
}
