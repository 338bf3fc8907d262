package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pintle-go/pintle/operators/neon/api"
)

// TestKeysDeleted has somebody delete the Secret of the keys. No other keys are made, which the programs would
// not know. A copy of the Secret mends all.
func TestKeysDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	was, err := w.secrets.Get(t.Context(), KeysName("main"))
	w.ok(err)
	same := func(is *corev1.Secret) {
		t.Helper()
		if string(is.Data[privatePEM]) != string(was.Data[privatePEM]) {
			t.Error("the cluster has other keys")
		}
	}
	w.ok(w.secrets.Delete(t.Context(), was.Name))
	isLost := says("keys", "Secret main-keys is gone")
	w.until("the cluster says so", func(c *api.NeonCluster) bool {
		if isLost(c) {
			return true
		}
		is, err := w.secrets.Get(t.Context(), was.Name)
		if apierrors.IsNotFound(err) {
			return false
		}
		w.ok(err)
		// A reconcile that had read the Secret before it was deleted has made it again, with the same keys.
		same(is)
		if err := w.secrets.Delete(t.Context(), was.Name); !apierrors.IsNotFound(err) {
			w.ok(err)
		}
		return false
	})
	again := &corev1.Secret{Data: was.Data, Immutable: was.Immutable}
	again.Name, again.Labels, again.Annotations = was.Name, was.Labels, was.Annotations
	again.OwnerReferences = was.OwnerReferences
	_, err = w.secrets.Create(t.Context(), again)
	w.ok(err)
	w.ready()
	is, err := w.secrets.Get(t.Context(), was.Name)
	w.ok(err)
	same(is)
}
