package branch_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/neon/api"
)

// TestDefinitionsDeleted deletes the definitions of all kinds at once, as kubectl delete -f does with the
// manifests. The objects go, whichever kind is gone first, and with them their data.
func TestDefinitionsDeleted(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, kubetest.Options{Private: true})
	w.start()
	w.project("app", nil)
	tenant := w.projectReady("app").Status.TenantID
	w.branch("trunk", "", nil)
	w.branchReady("trunk")
	all := kube.ViewOf[metav1.PartialObjectMetadata](w.client, kube.Kind{
		GVK:    kube.GVK{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
		Plural: "customresourcedefinitions", Scope: kube.ClusterScoped,
	})
	for _, d := range api.Definitions {
		w.ok(all.Delete(w.soon(), d.Name))
	}
	for _, d := range api.Definitions {
		if err := all.UntilGone(w.soon(), d.Name); err != nil {
			p, _ := w.projects.Get(w.Context(), "app")
			b, _ := w.branches.Get(w.Context(), "trunk")
			t.Fatalf("%v\nproject: %+v\nbranch: %+v", err, p, b)
		}
	}
	if left := w.timelines(tenant); len(left) > 0 {
		t.Errorf("%d timelines are left", len(left))
	}
}
