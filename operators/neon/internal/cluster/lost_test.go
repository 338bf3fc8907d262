package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestKeysDeleted has somebody delete the Secret of the keys. No other keys are made, which the programs would
// not know. A copy of the Secret mends all.
func TestKeysDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	was, err := w.secrets.Get(t.Context(), KeysName("main"))
	w.ok(err)
	w.ok(w.secrets.Delete(t.Context(), was.Name))
	w.until("the cluster says so", says("keys", "Secret main-keys is gone"))
	again := &corev1.Secret{Data: was.Data, Immutable: was.Immutable}
	again.Name, again.Labels, again.Annotations = was.Name, was.Labels, was.Annotations
	again.OwnerReferences = was.OwnerReferences
	_, err = w.secrets.Create(t.Context(), again)
	w.ok(err)
	w.ready()
	is, err := w.secrets.Get(t.Context(), was.Name)
	w.ok(err)
	if string(is.Data[privatePEM]) != string(was.Data[privatePEM]) {
		t.Error("the cluster has other keys")
	}
}
