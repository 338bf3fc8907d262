package cluster

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
)

// TestMembersEndFirst deletes a cluster, of which a pageserver takes long to end: it writes its newest layers.
// The programs and Services that it needs for that stay meanwhile.
func TestMembersEndFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	const flushes = "test.pintle.dev/flushes"
	hold := func(finalizers ...string) {
		t.Helper()
		_, err := w.pods.Modify(t.Context(), pageserverName("main", 1)+"-0", func(p *corev1.Pod) error {
			p.Finalizers = finalizers
			return nil
		})
		w.ok(err)
	}
	services := kube.For[corev1.Service](w.client).In(w.ns)
	deployments := kube.For[appsv1.Deployment](w.client).In(w.ns)
	gone := func() (all []string) {
		for _, name := range []string{"main-controller", "main-broker"} {
			if _, err := deployments.Get(t.Context(), name); apierrors.IsNotFound(err) {
				all = append(all, "Deployment "+name)
			}
		}
		for _, name := range []string{"main-controller", "main-broker", pageserverName("main", 1)} {
			if _, err := services.Get(t.Context(), name); apierrors.IsNotFound(err) {
				all = append(all, "Service "+name)
			}
		}
		return all
	}
	hold(flushes)
	w.ok(w.clusters.Delete(t.Context(), "main"))
	w.until("the cluster waits for the pod alone", func(c *api.NeonCluster) bool {
		if all := gone(); len(all) > 0 {
			hold()
			t.Fatalf("a pageserver has not ended, and these are gone: %s", strings.Join(all, ", "))
		}
		ready := meta.FindStatusCondition(c.Status.Conditions, "Ready")
		return ready.Reason == "Ending" && strings.HasSuffix(ready.Message, ": "+pageserverName("main", 1)+"-0")
	})
	hold()
	w.until("nothing is left", func(c *api.NeonCluster) bool { return c == nil && len(w.remains()) == 0 })
}
