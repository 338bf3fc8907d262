package endpoint

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
)

// TestOwnerOfAnotherBranch makes the owner of a database late, on another branch at first. The condition of
// the database tells of each change.
func TestOwnerOfAnotherBranch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.operate()
	databases := kube.For[api.NeonBranchDatabase](w.client).In(w.namespace)
	d := new(api.NeonBranchDatabase)
	d.Name, d.Spec.Branch, d.Spec.Owner = "shop", "trunk", "app"
	_, err := databases.Create(w.soon(), d)
	w.ok(err)
	says := func(reason string) {
		t.Helper()
		d, err := databases.Until(w.soon(), "shop", func(d *api.NeonBranchDatabase) bool {
			c := meta.FindStatusCondition(d.Status.Conditions.Conditions, "Ready")
			return c != nil && c.Reason == reason
		})
		if err != nil {
			t.Fatalf("the database does not say %s: %v, %+v", reason, err, d)
		}
	}
	owner := func(branch string) {
		t.Helper()
		r := new(api.NeonRole)
		r.Name, r.Spec.Branch = "app", branch
		_, err := w.roles.Create(w.soon(), r)
		w.ok(err)
	}
	says("NoOwner")
	owner("other")
	says("OtherBranch")
	w.ok(w.roles.Delete(w.soon(), "app"))
	says("NoOwner")
	owner("trunk")
	says("Ready")
}
