package controlplane

import (
	"net/http"
	"strings"
	"testing"
)

// The components of a cluster reach its addresses without the user's proxy, and all others through it.
func TestComponentsPassTheProxyBy(t *testing.T) {
	if linkRange.Overlaps(ServiceCIDR) || linkRange.Overlaps(PodCIDR) {
		t.Error("links share addresses with services or pods")
	}
	t.Setenv("HTTPS_PROXY", "http://proxy.example.com:3128")
	t.Setenv("NO_PROXY", "intranet.example.com,10.9.0.0/16")
	for _, variable := range (&Plane{Services: ServiceCIDR, Pods: PodCIDR}).Environment() {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	for address, want := range map[string]bool{
		"10.96.0.1:443": false, "10.247.3.4:8443": false, "10.112.0.1:6443": false, "10.127.0.2:10250": false,
		"127.0.0.1:6443": false, "localhost:6443": false, "web.shop.svc:443": false, "web.shop.svc.cluster.local": false,
		"intranet.example.com": false, "10.9.0.1": false, "registry.example.com": true, "10.8.0.1": true,
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		proxy, err := http.ProxyFromEnvironment(r) // which reads the variables once in a process
		if err != nil || (proxy != nil) != want {
			t.Errorf("%s goes to %v, %v", address, proxy, err)
		}
	}
}
