package branch_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/cluster"
)

// TestRestored loses a Kubernetes, and makes the objects of the same manifests in another one, in which the storage
// and the Secret of the keys were restored from copies. They have the data: nothing is made beside it.
func TestRestored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	w.project("app", nil)
	manifests := func(w *world) {
		w.branch("review", "twig", func(b *api.NeonBranch) { b.Spec.TTLSeconds = 100_000 })
		w.branch("twig", "trunk", func(b *api.NeonBranch) { b.Spec.Reset = "monday" })
		w.branch("trunk", "", nil)
	}
	manifests(w)
	ids := func(w *world) map[string]string {
		t.Helper()
		all := map[string]string{"app": w.projectReady("app").Status.TenantID}
		for _, name := range []string{"trunk", "twig"} {
			all[name] = w.branchReady(name).Status.TimelineID
		}
		w.branchReady("review")
		return all
	}
	before := ids(w)
	w.changeBranch("twig", func(b *api.NeonBranch) { b.Spec.Reset = "tuesday" })
	until(w, w.branches, "twig", "is reset", branchStatus, func(b *api.NeonBranch) bool {
		return b.Status.Reset == "tuesday" && isReady(b, b.Status.Conditions)
	})
	was := ids(w)
	if was["twig"] == before["twig"] {
		t.Error("the branch was not reset")
	}
	secrets := kube.For[corev1.Secret](w.client).In(w.namespace)
	kept, err := secrets.Until(w.soon(), cluster.KeysName("main"), func(s *corev1.Secret) bool {
		return s.Annotations == nil || s.Annotations[cluster.AnnotationOf(cluster.TimelineOf, "app.twig")] == was["app"]+"/"+was["twig"]
	})
	w.ok(err)
	w.kill()

	other := w.elsewhere(t)
	other.start()
	manifests(other) // the project is missing, and so are the former ids
	_, err = kube.For[corev1.Secret](other.client).In(other.namespace).Modify(other.soon(), kept.Name, func(s *corev1.Secret) error {
		s.Annotations = kept.Annotations
		return nil
	})
	other.ok(err)
	other.project("app", nil)
	for name, id := range ids(other) {
		if id != was[name] {
			t.Errorf("%s has %s, and its data is in %s", name, id, was[name])
		}
	}
	tenants, err := w.storage.Tenants(w.soon())
	w.ok(err)
	if len(tenants) != 1 {
		t.Errorf("there are %d tenants", len(tenants))
	}

	t.Log("a branch that is deleted with its data is forgotten, and a retained one is not")
	gone(other, other.branches, "review")
	other.changeBranch("twig", func(b *api.NeonBranch) { b.Spec.DeletionPolicy = api.Retain })
	other.branchReady("twig")
	gone(other, other.branches, "twig")
	other.branch("twig", "trunk", nil)
	if id := other.branchReady("twig").Status.TimelineID; id != was["twig"] {
		t.Errorf("the branch has %s, and its data was retained in %s", id, was["twig"])
	}
	gone(other, other.branches, "twig")
	other.branch("twig", "trunk", nil)
	fresh := other.branchReady("twig").Status.TimelineID
	if fresh == was["twig"] {
		t.Error("the timeline is one that was deleted")
	}

	t.Log("the data of a branch is lost: that is an error, and no empty one is made")
	other.kill()
	w.ok(w.storage.DeleteTimeline(w.soon(), was["app"], fresh))
	third := w.elsewhere(t)
	third.start()
	_, err = kube.For[corev1.Secret](third.client).In(third.namespace).Modify(third.soon(), kept.Name, func(s *corev1.Secret) error {
		s.Annotations = map[string]string{
			cluster.AnnotationOf(cluster.TenantOf, "app"):        was["app"],
			cluster.AnnotationOf(cluster.TimelineOf, "app.twig"): was["app"] + "/" + fresh,
		}
		return nil
	})
	third.ok(err)
	third.project("app", nil)
	third.projectReady("app")
	third.branch("twig", "", nil)
	third.says("twig", "timeline "+fresh+", which NeonBranch twig has had, is not in tenant")
	_, err = kube.For[corev1.Secret](third.client).In(third.namespace).Modify(third.soon(), kept.Name, func(s *corev1.Secret) error {
		delete(s.Annotations, cluster.AnnotationOf(cluster.TimelineOf, "app.twig"))
		return nil
	})
	third.ok(err)
	third.branchReady("twig")
}

// TestAnnotationOf sees that each name has an annotation that the API server accepts.
func TestAnnotationOf(t *testing.T) {
	t.Parallel()
	var all []string
	for _, name := range []string{"a", "shop.example.com", strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a", 65)} {
		a := cluster.AnnotationOf(cluster.TimelineOf, name)
		_, last, _ := strings.Cut(a, "/")
		if len(last) > 63 || slices.Contains(all, a) {
			t.Errorf("%s: %s", name, a)
		}
		all = append(all, a)
	}
}
