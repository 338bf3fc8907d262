package endpoint

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

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
		_, err := op.Roles.In(old.Namespace).Cached().Get(w.soon(), old.Name)
		return apierrors.IsNotFound(err)
	})
	// The garbage collector can take long.
	if err := w.secrets.Delete(w.soon(), "app-password"); !apierrors.IsNotFound(err) {
		w.ok(err)
	}
	w.eventually("the store has no Secret", func() bool {
		_, err := op.Secrets.In(made.Namespace).Cached().Get(w.soon(), made.Name)
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

// TestRoleThatGoesMeanwhile deletes a role and its Secret when another process of the operator, whose store
// still has both, is about to apply the Secret. It is not made again.
func TestRoleThatGoesMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.operate()
	role := new(api.NeonRole)
	role.Name, role.Spec.Branch = "app", "trunk"
	_, err := w.roles.Create(w.soon(), role)
	w.ok(err)
	_, err = w.secrets.Until(w.soon(), "app-password", func(s *corev1.Secret) bool { return len(s.Data) > 0 })
	w.ok(err)
	stop()
	history := w.record()
	applied, last := make(chan struct{}), sync.OnceFunc(func() {
		if err := errors.Join(w.roles.Delete(w.soon(), "app"), w.secrets.UntilGone(w.soon(), "app-password")); err != nil {
			t.Error(err)
		}
	})
	end := sync.OnceFunc(func() { close(applied) })
	w.requests = func(c *rest.Config) {
		c.Wrap(func(to http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				if r.Method != http.MethodPatch || !strings.HasSuffix(r.URL.Path, "/secrets/app-password") {
					return to.RoundTrip(r)
				}
				last()
				defer end()
				return to.RoundTrip(r)
			})
		})
	}
	w.operate()
	<-applied
	marker := new(corev1.Secret)
	marker.Name = "marker"
	_, err = w.secrets.Create(w.soon(), marker)
	w.ok(err)
	w.eventually("the history has all before", func() bool { return history.made("Secret marker") > 0 })
	if n := history.made("Secret app-password"); n != 1 {
		t.Errorf("the Secret was made %d times", n)
	}
}
