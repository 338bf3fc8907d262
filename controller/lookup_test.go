package controller

import (
	"context"
	"net/http"
	"path"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube"
)

// A controller reads its objects with the rights of its store, to list and to watch. It
// does so where a finalizer conflicts with a write, where the object has left the
// handle's selector by then, and where a reconcile fails because its object is gone.
func TestControllerGetsNothing(t *testing.T) {
	b := newBench(t)
	others := kube.For[corev1.ConfigMap](b.client).In(b.namespace)
	var rivals atomic.Int64
	client := b.connect(func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		if r.Method == http.MethodGet && path.Base(path.Dir(r.URL.Path)) == "configmaps" {
			t.Errorf("the controller gets %s", path.Base(r.URL.Path))
		}
		if r.Method == http.MethodPatch && strings.HasSuffix(r.Header.Get("Content-Type"), "json-patch+json") &&
			rivals.Add(1)%2 == 1 {
			// Another program writes first. The second write hides the object from the
			// controller.
			patch := `{"data":{"rival":"true"}}`
			if rivals.Load() > 1 {
				patch = `{"metadata":{"labels":{"role":"other"}}}`
			}
			if _, err := others.Patch(r.Context(), path.Base(r.URL.Path), types.MergePatchType, []byte(patch)); err != nil {
				t.Error(err)
			}
		}
		return send()
	})
	parents := kube.For[corev1.ConfigMap](client).In(b.namespace).Labeled("role=parent")
	var reconciled atomic.Bool
	b.start(Options{}, Controller[corev1.ConfigMap]{
		Name: "cleaner", For: parents, Finalizer: testFinalizer,
		Reconcile: func(context.Context, *corev1.ConfigMap) (Action, error) {
			reconciled.Store(true)
			return Done, nil
		},
		Cleanup: func(context.Context, *corev1.ConfigMap) (Action, error) { return Done, nil },
	})
	b.create("p")
	b.eventually("a reconcile, after a conflict", reconciled.Load)
	b.delete("p")
	if err := others.UntilGone(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	if rivals.Load() < 4 {
		t.Errorf("%d patches of finalizers: no conflict", rivals.Load())
	}
}

func TestReconcileOfAGoneObjectGetsNothing(t *testing.T) {
	b := newBench(t)
	client := b.connect(func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		if r.Method == http.MethodGet && path.Base(path.Dir(r.URL.Path)) == "configmaps" {
			t.Errorf("the controller gets %s", path.Base(r.URL.Path))
		}
		return send()
	})
	parents := kube.For[corev1.ConfigMap](client).In(b.namespace).Labeled("role=parent")
	var ended atomic.Bool
	b.start(Options{}, Controller[corev1.ConfigMap]{
		For: parents,
		Reconcile: func(ctx context.Context, p *corev1.ConfigMap) (Action, error) {
			b.delete(p.Name)
			_, err := parents.Patch(ctx, p.Name, types.MergePatchType, []byte(`{"data":{"seen":"true"}}`))
			return Done, err
		},
		Failed: func(_ context.Context, p *corev1.ConfigMap, err error) error {
			t.Errorf("the failure of an object that is gone is reported: %v", err)
			return nil
		},
		Gone: func(context.Context, *corev1.ConfigMap) error {
			ended.Store(true)
			return nil
		},
	})
	b.create("p")
	b.eventually("the end of the object", ended.Load)
}
