package branch_test

import (
	"testing"

	"github.com/pintle-go/pintle/operators/neon/api"
)

// TestResetAsBefore resets a branch with texts that it has had, with a compute on the timeline of then and
// without. The branch does not get that one back, with its changes, but another copy of its parent.
func TestResetAsBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	trunk := w.trunk()
	w.branch("twig", "trunk", nil)
	first := w.branchReady("twig").Status.TimelineID
	w.endpoint("shop", "twig")
	w.computeOn("shop", first)
	reset := func(text, from string) string {
		t.Helper()
		w.changeBranch("twig", func(b *api.NeonBranch) { b.Spec.Reset = text })
		return until(w, w.branches, "twig", "is reset to "+text, branchStatus, func(b *api.NeonBranch) bool {
			return b.Status.TimelineID != from && len(b.Status.Safekeepers) == 3
		}).Status.TimelineID
	}
	monday := reset("monday", first)
	w.computeOn("shop", monday)
	tuesday := reset("tuesday", monday)
	again := reset("monday", tuesday)
	w.computeOn("shop", again)
	w.branchReady("twig")
	last := reset("", again)
	w.computeOn("shop", last)
	w.branchReady("twig")
	seen := map[string]bool{}
	for _, id := range []string{first, monday, tuesday, again, last} {
		if seen[id] {
			t.Errorf("the timeline %s is there again", id)
		}
		seen[id] = true
	}
	w.ok(w.endpoints.Delete(w.soon(), "shop"))
	gone(w, w.branches, "twig")
	if all := w.timelines(trunk.Status.TenantID); len(all) != 1 {
		t.Errorf("%d timelines are left", len(all))
	}
}
