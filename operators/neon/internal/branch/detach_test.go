package branch_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/wire"
)

// independent waits until a branch is ready and has no parent.
func (w *world) independent(name string) *api.NeonBranch {
	w.Helper()
	return until(w, w.branches, name, "is independent", branchStatus, func(b *api.NeonBranch) bool {
		return b.Status.Parent == "" && isReady(b, b.Status.Conditions)
	})
}

// TestDetachedInTurn detaches a branch of a branch, and one that has an archived sibling. The
// pageserver would refuse both, so the operator waits, and says for what.
func TestDetachedInTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	w.trunk()
	w.branch("limb", "trunk", func(b *api.NeonBranch) { b.Spec.Archived = true })
	w.branchReady("limb")
	w.branch("bough", "trunk", nil)
	w.branchReady("bough")
	w.branch("twig", "bough", func(b *api.NeonBranch) { b.Spec.Detached = true })
	w.says("twig", "its parent, bough, has a parent itself: detach that one first")
	detach := func(b *api.NeonBranch) { b.Spec.Detached = true }
	w.changeBranch("bough", detach)
	w.says("bough", "earlier branches of its parent are archived: limb; set spec.archived of them to false first")
	if n := w.count(http.MethodPut, "/detach_ancestor"); n != 0 {
		t.Errorf("the storage controller was asked %d times", n)
	}
	w.changeBranch("limb", func(b *api.NeonBranch) { b.Spec.Archived = false })
	for _, name := range []string{"bough", "twig"} {
		w.independent(name)
	}
	if n := w.count(http.MethodPut, "/detach_ancestor"); n != 2 {
		t.Errorf("the storage controller was asked %d times", n)
	}
}

// TestDetachmentHears has branches wait for a detachment, with retries that come too late. They hear
// of the branches that the storage knows as their parent and siblings, whatever their own specs say.
func TestDetachmentHears(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	w.trunk()
	w.branch("early", "trunk", nil)
	early := w.branchReady("early")
	w.branch("limb", "trunk", func(b *api.NeonBranch) { b.Spec.Archived = true })
	w.branchReady("limb")
	detached := func(b *api.NeonBranch) { b.Spec.Detached = true }
	w.branch("bough", "trunk", detached)
	w.says("bough", "earlier branches of its parent are archived: limb")
	w.kill()
	w.backoff = controller.Backoff{Min: time.Hour, Max: time.Hour}
	w.start()
	w.says("bough", "earlier branches of its parent are archived: limb")
	time.Sleep(time.Second) // its first reconcile fails
	w.changeBranch("limb", func(b *api.NeonBranch) { b.Spec.Archived = false })
	bough := w.independent("bough")
	if is := w.timelines(bough.Status.TenantID)[early.Status.TimelineID]; *is.Ancestor != bough.Status.TimelineID {
		t.Fatalf("the ancestor of the earlier sibling is %s", *is.Ancestor)
	}
}

// TestDetachedAndArchived wants a branch to be both. Its archival comes first, and the pageserver is not
// asked to detach it while it lasts.
func TestDetachedAndArchived(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	w.trunk()
	w.branch("leaf", "trunk", nil)
	w.branchReady("leaf")
	w.changeBranch("leaf", func(b *api.NeonBranch) { b.Spec.Detached, b.Spec.Archived = true, true })
	w.branchReady("leaf")
	if n := w.count(http.MethodPut, "/detach_ancestor"); n != 0 {
		t.Errorf("the storage controller was asked %d times", n)
	}
	w.changeBranch("leaf", func(b *api.NeonBranch) { b.Spec.Archived = false })
	w.independent("leaf")
}

// TestDetachedByHalf has a shard fail to detach a timeline after another has done so. The storage shows
// the first shard only. The branch is not independent before all shards have said so, even if the operator
// starts again in between.
func TestDetachedByHalf(t *testing.T) {
	t.Parallel()
	for name, atOnce := range map[string]bool{"later": false, "from the start": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.start()
			w.project("app", func(p *api.NeonProject) { p.Spec.Shards = 2 })
			w.projectReady("app")
			w.branch("trunk", "", nil)
			w.branchReady("trunk")
			pageserver := w.lab.Pageservers[1]
			fault := wire.Fault{Method: http.MethodPut, Path: "0102/timeline/", Status: http.StatusInternalServerError}
			pageserver.Faults.Add(fault)
			w.branch("bough", "trunk", func(b *api.NeonBranch) { b.Spec.Detached = atOnce })
			if !atOnce {
				w.branchReady("bough")
				w.changeBranch("bough", func(b *api.NeonBranch) { b.Spec.Detached = true })
			}
			w.says("bough", "detach the timeline from its parent")
			w.kill()
			asked := w.count(http.MethodPut, "/detach_ancestor")
			pageserver.Faults.Clear()
			w.start()
			w.independent("bough")
			if n := w.count(http.MethodPut, "/detach_ancestor"); n <= asked {
				t.Errorf("the storage controller was asked %d times, and not after the failures", n)
			}
		})
	}
}

// TestBroken has the pageserver give up one timeline. Its branch says so with the reason, and those
// beside it go on.
func TestBroken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	w.trunk()
	w.branch("ill", "trunk", nil)
	ill := w.branchReady("ill")
	w.kill()
	for _, p := range w.lab.Pageservers {
		p.Break(ill.Status.TimelineID, "layer file is missing")
	}
	w.start()
	w.branch("well", "trunk", nil)
	w.branchReady("well")
	w.says("ill", "the pageserver says that it is Broken: layer file is missing")
}
