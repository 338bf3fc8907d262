package branch_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube"
)

// TestOrphaned deletes a branch and its project with the option to orphan what they have. Their data stays, also if the
// garbage collector has ended the option before the operator sees it, and objects of their names get it again.
func TestOrphaned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	w.project("app", nil)
	tenant := w.projectReady("app").Status.TenantID
	w.branch("trunk", "", nil)
	timeline := w.branchReady("trunk").Status.TimelineID
	w.kill()
	how := metav1.DeletePropagationOrphan
	w.ok(w.branches.Delete(w.soon(), "trunk", metav1.DeleteOptions{PropagationPolicy: &how}))
	w.ok(w.projects.Delete(w.soon(), "app", metav1.DeleteOptions{PropagationPolicy: &how}))
	for _, o := range []interface{ GetFinalizers() []string }{
		untilCollected(w, w.branches, "trunk"), untilCollected(w, w.projects, "app"),
	} {
		t.Logf("the collector has left the finalizers %q", o.GetFinalizers())
	}
	w.start()
	w.ok(w.branches.UntilGone(w.soon(), "trunk"))
	w.ok(w.projects.UntilGone(w.soon(), "app"))
	if left := w.timelines(tenant); len(left) != 1 {
		t.Errorf("the tenant has %d timelines", len(left))
	}
	w.project("app", nil)
	w.branch("trunk", "", nil)
	if id := w.projectReady("app").Status.TenantID; id != tenant {
		t.Errorf("the project has %s, and its data is in %s", id, tenant)
	}
	if id := w.branchReady("trunk").Status.TimelineID; id != timeline {
		t.Errorf("the branch has %s, and its data is in %s", id, timeline)
	}
	for s, err := range kube.For[corev1.Secret](w.client).In(w.namespace).List(w.soon()) {
		w.ok(err)
		if len(s.OwnerReferences) == 0 && s.Type != corev1.SecretTypeOpaque {
			t.Errorf("the witness %s is left", s.Name)
		}
	}
}

// untilCollected waits until the garbage collector has ended the option to orphan.
func untilCollected[T any](w *world, objects kube.Resource[T], name string) metav1.Object {
	w.Helper()
	o, err := objects.Until(w.soon(), name, func(o *T) bool {
		for _, f := range any(o).(metav1.Object).GetFinalizers() {
			if f == metav1.FinalizerOrphanDependents {
				return false
			}
		}
		return true
	})
	w.ok(err)
	return any(o).(metav1.Object)
}
