// Package capability does not compile: each line with a "want" comment is an
// error, because the type of a handle decides which calls it has.
package capability

import (
	"context"

	"github.com/pintle-go/pintle/kube"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type view struct{ kube.Object }

type noMetadata struct{ Name string }

func compiles(ctx context.Context, c *kube.Client) {
	pods := kube.For[corev1.Pod](c).In("a")
	_, _ = pods.Update(ctx, &corev1.Pod{})
	_, _ = pods.Apply(ctx, &corev1.Pod{})
	_, _ = pods.ReadOnly().Get(ctx, "x")
	views := kube.ViewOf[view](c, kube.KindOf[corev1.Pod]())
	_, _ = views.Apply(ctx, &view{})
	_ = views.Delete(ctx, "x", metav1.DeleteOptions{})
	_ = views.Status().Modify(ctx, "x", nil)
	_ = pods.Status().Update(ctx, &corev1.Pod{})
	_ = pods.Fielded("a=b").Delete(ctx, "x")
	_ = kube.Sub[corev1.Pod](views, "status")
}

func doesNotCompile(ctx context.Context, c *kube.Client) {
	views := kube.ViewOf[view](c, kube.KindOf[corev1.Pod]())
	_, _ = views.Create(ctx, &view{})       // want "views.Create undefined"
	_, _ = views.Update(ctx, &view{})       // want "views.Update undefined"
	_ = views.Status().Update(ctx, &view{}) // want "Update undefined"
	reader := kube.For[corev1.Pod](c).ReadOnly()
	_, _ = reader.Apply(ctx, &corev1.Pod{})                    // want "reader.Apply undefined"
	_ = reader.Status().Apply(ctx, &corev1.Pod{})              // want "reader.Status undefined"
	_ = reader.Status().Ensure(ctx, &corev1.Pod{})             // want "reader.Status undefined"
	_, _ = reader.Patch(ctx, "x", "", nil)                     // want "reader.Patch undefined"
	_, _ = reader.Modify(ctx, "x", nil)                        // want "reader.Modify undefined"
	_ = reader.Delete(ctx, "x")                                // want "reader.Delete undefined"
	_ = reader.DeleteAll(ctx)                                  // want "reader.DeleteAll undefined"
	_ = kube.For[noMetadata](c)                                // want "does not satisfy"
	_ = kube.For[corev1.Container](c)                          // want "does not satisfy"
	_, _ = kube.For[corev1.Pod](c).Create(ctx, &corev1.Node{}) // want "cannot use &corev1.Node"
}
