package endpoint

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/spec"
)

// role makes a role of branch trunk.
func (w *world) role(name, inPostgres string) {
	w.Helper()
	r := new(api.NeonRole)
	r.Name, r.Spec.Branch, r.Spec.Name = name, "trunk", inPostgres
	_, err := w.roles.Create(w.soon(), r)
	w.ok(err)
}

// refuses waits until a role is not ready for a reason.
func (w *world) refuses(name, text string) {
	w.Helper()
	r, err := w.roles.Until(w.soon(), name, func(r *api.NeonRole) bool {
		c := meta.FindStatusCondition(r.Status.Conditions.Conditions, "Ready")
		return c != nil && c.Status == "False" && strings.Contains(c.Message, text)
	})
	if err != nil {
		w.Fatalf("role %s does not say %q: %v, %+v", name, text, err, r)
	}
}

// Roles and databases that PostgreSQL cannot have do not keep the others, and their endpoints, from working.
func TestRolesThatCannotBe(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.branch("trunk", "1")
	w.operate()
	w.role("first", "app")
	w.create(endpointOf("shop", "trunk"))
	w.ready("shop")
	pod := w.pod("shop", "")

	w.role("second", "app")
	w.role("admin", "cloud_admin")
	w.role(strings.Repeat("l", 64), "")
	w.role("writer", "writer")
	databases := kube.For[api.NeonBranchDatabase](w.client).In(w.namespace)
	for name, inPostgres := range map[string]string{
		"first": "app", "second": "app", "system": "postgres", strings.Repeat("l", 64): "", "third": "third",
	} {
		d := new(api.NeonBranchDatabase)
		d.Name, d.Spec.Branch, d.Spec.Name, d.Spec.Owner = name, "trunk", inPostgres, "first"
		_, err := databases.Create(w.soon(), d)
		w.ok(err)
	}
	w.eventually("the compute has those that can be", func() bool {
		is := w.outside.process(pod.UID).config.Spec.Cluster
		return len(is.Roles) == 2 && len(is.Databases) == 2
	})
	w.ready("shop")
	w.refuses("second", "NeonRole first has the name app")
	w.refuses("admin", "the name belongs to Postgres or to the compute")
	w.refuses(strings.Repeat("l", 64), "more than 63 bytes")
	w.ok(w.roles.Delete(w.soon(), "first"))
	_, err := w.secrets.Until(w.soon(), "shop-second", func(s *corev1.Secret) bool { return len(s.Data) > 0 })
	w.ok(err)
}

// The Secret by which a role logs in does not take the place of the endpoint's own.
func TestRoleNamedAsAPart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.branch("trunk", "1")
	w.operate()
	w.create(endpointOf("shop", "trunk"))
	w.ready("shop")
	w.role("compute", "")
	w.says("shop", "connection/compute: keep Secret shop-compute, which is a part of the endpoint")
	pod := w.pod("shop", "")
	before := w.outside.process(pod.UID).configured
	w.modify("shop", func(e *api.NeonEndpoint) { e.Spec.Settings = map[string]string{"work_mem": "8MB"} })
	w.eventually("the endpoint is configured", func() bool {
		is := w.outside.process(pod.UID)
		return is.configured > before && slices.ContainsFunc(is.config.Spec.Cluster.Settings, func(o spec.Option) bool {
			return o.Name == "work_mem" && o.Value == "8MB"
		})
	})
}

// Objects of one second have no order of their own: the one that is in use goes on.
func TestNamesakeOfOneSecond(t *testing.T) {
	t.Parallel()
	made := metav1.Now()
	role := func(name, uid, secret string) *api.NeonRole {
		r := new(api.NeonRole)
		r.Name, r.UID, r.CreationTimestamp = name, types.UID(uid), made
		r.Spec.Name, r.Status.Secret = "app", secret
		return r
	}
	for _, all := range [][]*api.NeonRole{
		{role("used", "b", "used-password"), role("late", "a", "")},
		{role("late", "a", ""), role("used", "b", "used-password")},
		{role("late", "b", ""), role("used", "a", "")},
	} {
		is, err := roles.usable(func(yield func(*api.NeonRole, error) bool) {
			for _, r := range all {
				if !yield(r, nil) {
					return
				}
			}
		})
		if err != nil || len(is) != 1 || is[0].Name != "used" {
			t.Errorf("%d roles have the name: %v, %v", len(is), is, err)
		}
	}
}
