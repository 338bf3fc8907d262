package optest

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pintle-go/pintle/kube"
)

// Release takes the finalizers off all objects of the handles' kinds and namespaces when the test
// has ended. An operator that is started after Release has ended by then, so nobody else would. A
// namespace with such an object cannot end: the controller-manager of a shared cluster would try
// to empty it again every few seconds, with a hundred requests, until the last test of all
// packages has ended.
func Release(t testing.TB, of ...kube.AnyHandle) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		for _, h := range of {
			if err := release(ctx, h); err != nil {
				t.Logf("take the finalizers off: %v", err)
			}
		}
	})
}

func release(ctx context.Context, of kube.AnyHandle) error {
	objects := kube.ForKind[unstructured.Unstructured](of.Client(), of.Kind()).In(of.Namespaces()...)
	for o, err := range objects.List(ctx) {
		if err != nil {
			return err
		}
		if len(o.GetFinalizers()) == 0 {
			continue
		}
		_, err := objects.In(o.GetNamespace()).Modify(ctx, o.GetName(), func(o *unstructured.Unstructured) error {
			o.SetFinalizers(nil)
			return nil
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}
