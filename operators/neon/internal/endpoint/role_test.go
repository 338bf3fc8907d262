package endpoint

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
)

// TestRoleThatIsGone reconciles a role as a store has it that has not heard of its deletion, but of that
// of its Secret. No other Secret is made, neither if a role of the same name is there.
func TestRoleThatIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var op *Operator
	w.operate(func(is *Operator) { op = is })
	role := new(api.NeonRole)
	role.Name, role.Spec.Branch = "app", "trunk"
	old, err := w.roles.Create(w.soon(), role)
	w.ok(err)
	made, err := w.secrets.Until(w.soon(), "app-password", func(s *corev1.Secret) bool { return len(s.Data) > 0 })
	w.ok(err)
	w.ok(w.roles.Delete(w.soon(), "app"))
	w.eventually("the store has no role", func() bool {
		_, err := op.Roles.Cached().Get(w.soon(), kube.KeyOf(old))
		return apierrors.IsNotFound(err)
	})
	// The garbage collector can take long.
	if err := w.secrets.Delete(w.soon(), "app-password"); !apierrors.IsNotFound(err) {
		w.ok(err)
	}
	w.eventually("the store has no Secret", func() bool {
		_, err := op.Secrets.Cached().Get(w.soon(), kube.KeyOf(made))
		return apierrors.IsNotFound(err)
	})
	_, failed := op.reconcileRole(w.soon(), old)
	if _, err := w.secrets.Get(w.soon(), "app-password"); !apierrors.IsNotFound(err) {
		t.Errorf("the Secret of a role that is gone was made: %v", err)
	}
	w.ok(failed)

	role.Name = "app"
	again, err := w.roles.Create(w.soon(), role)
	w.ok(err)
	next, err := w.secrets.Until(w.soon(), "app-password", func(s *corev1.Secret) bool { return s.UID != made.UID })
	w.ok(err)
	if owner := next.OwnerReferences[0].UID; owner != again.UID {
		t.Errorf("the Secret is of %s, and the role is %s", owner, again.UID)
	}
}
