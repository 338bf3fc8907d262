package manifest

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/kube"
)

// The rights for the claims of StatefulSets are in the namespaces of the handle, or in all.
func TestKeepsClaims(t *testing.T) {
	client, err := kube.Config{Rest: &rest.Config{Host: "http://played"}}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	sets := kube.For[appsv1.StatefulSet](client)
	for want, handle := range map[string]kube.Resource[appsv1.StatefulSet]{"": sets, "a": sets.In("a")} {
		found := false
		for _, r := range Keeps(handle) {
			if r.err != nil {
				t.Errorf("in %q: the rule of %s: %v", want, r.kind.Kind, r.err)
			}
			if r.kind.Kind != "PersistentVolumeClaim" {
				continue
			}
			found = true
			if got := append(r.namespaces, "")[0]; got != want {
				t.Errorf("in %q: the claims are in %q", want, r.namespaces)
			}
		}
		if !found {
			t.Errorf("in %q: no rule for claims", want)
		}
	}
}
