package endpoint

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
		w.databaseSays("shop", reason, func(c *metav1.Condition) bool { return c.Reason == reason })
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

// TestOwnerThatIsRefused has databases whose owners PostgreSQL cannot have. They are left out of the
// configuration, and their conditions say so until the owners are mended.
func TestOwnerThatIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.branch("trunk", "1")
	w.operate()
	w.role("first", "app")
	// It has its name when its status has the Secret: until then one of the same second may get it.
	_, err := w.roles.Until(w.soon(), "first", func(r *api.NeonRole) bool { return r.Status.Secret != "" })
	w.ok(err)
	w.role("second", "app")
	w.role("admin", "cloud_admin")
	databases := kube.For[api.NeonBranchDatabase](w.client).In(w.namespace)
	says := func(name string, status metav1.ConditionStatus, texts ...string) {
		t.Helper()
		w.databaseSays(name, strings.Join(texts, ", "), func(c *metav1.Condition) bool {
			return c.Status == status && !slices.ContainsFunc(texts, func(text string) bool {
				return !strings.Contains(c.Reason+": "+c.Message, text)
			})
		})
	}
	for _, owner := range []string{"first", "second", "admin"} {
		d := new(api.NeonBranchDatabase)
		d.Name, d.Spec.Branch, d.Spec.Owner = "of-"+owner, "trunk", owner
		_, err := databases.Create(w.soon(), d)
		w.ok(err)
	}
	says("of-first", "True")
	says("of-second", "False",
		"OwnerRefused: NeonRole second", "NameTaken", "NeonRole first has the name app", "delete one of the two")
	says("of-admin", "False", "OwnerRefused: NeonRole admin", "BadName", `"cloud_admin": the name belongs to Postgres`)

	w.ok(w.roles.Delete(w.soon(), "first"))
	says("of-second", "True")
	says("of-first", "False", "NoOwner")
	w.ok(w.roles.Delete(w.soon(), "admin"))
	says("of-admin", "False", "NoOwner")
	w.role("admin", "keeper")
	says("of-admin", "True")
}

// TestOwnerWithoutPassword has a database whose owner is to have a password that is not there.
func TestOwnerWithoutPassword(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.operate()
	r := new(api.NeonRole)
	r.Name, r.Spec.Branch, r.Spec.Password = "app", "trunk", &api.SecretKey{Name: "given", Key: "password"}
	_, err := w.roles.Create(w.soon(), r)
	w.ok(err)
	databases := kube.For[api.NeonBranchDatabase](w.client).In(w.namespace)
	d := new(api.NeonBranchDatabase)
	d.Name, d.Spec.Branch, d.Spec.Owner = "shop", "trunk", "app"
	_, err = databases.Create(w.soon(), d)
	w.ok(err)
	says := func(reason string) {
		t.Helper()
		w.databaseSays("shop", reason, func(c *metav1.Condition) bool { return c.Reason == reason })
	}
	says("OwnerNotReady")
	given := &corev1.Secret{StringData: map[string]string{"password": "secret"}}
	given.Name = "given"
	_, err = w.secrets.Create(w.soon(), given)
	w.ok(err)
	says("Ready")
}

// databaseSays waits until the condition Ready of a NeonBranchDatabase holds.
func (w *world) databaseSays(name, what string, holds func(*metav1.Condition) bool) {
	w.Helper()
	databases := kube.For[api.NeonBranchDatabase](w.client).In(w.namespace)
	d, err := databases.Until(w.soon(), name, func(d *api.NeonBranchDatabase) bool {
		c := meta.FindStatusCondition(d.Status.Conditions.Conditions, "Ready")
		return c != nil && holds(c)
	})
	if err != nil {
		w.Fatalf("database %s does not say %q: %v, %+v", name, what, err, d)
	}
}
