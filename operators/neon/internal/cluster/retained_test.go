package cluster

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/operators/neon/api"
)

// TestRetainedMembers deletes a cluster that had lost a safekeeper and a pageserver. The policy is
// changed to Retain just before. The cluster that takes the data over has the volumes and the members
// of the first, and uses no id again.
func TestRetainedMembers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.timeline(tenantID, 0)
	w.crash("safekeeper-1")
	w.change(func(c *api.NeonCluster) { c.Spec.Safekeepers.Lost, c.Spec.Pageservers.Count = []int64{1}, 1 })
	stay := func(c *api.NeonCluster) bool {
		return slices.Equal(shown(c.Status.Safekeepers), []string{"2:zone-2", "3:zone-3", "4:zone-4"}) &&
			len(c.Status.Pageservers) == 1 && isReady(c)
	}
	first := w.until("the members have left", stay)
	w.until("their volumes have gone", func(c *api.NeonCluster) bool {
		_, claim := w.claims.Get(t.Context(), "data-"+pageserverName("main", 2)+"-0")
		return w.left(1)(c) && apierrors.IsNotFound(claim)
	})

	w.ok(w.branches.Delete(t.Context(), "b"+tenantID[:4]))
	w.ok(w.projects.Delete(t.Context(), "p"+tenantID[:4]))
	claims := w.claimIDs()
	w.stop()
	w.change(func(c *api.NeonCluster) { c.Spec.DeletionPolicy = api.Retain })
	w.ok(w.clusters.Delete(t.Context(), "main"))
	w.start()
	w.until("the cluster is gone", func(c *api.NeonCluster) bool { return c == nil })

	second := new(api.NeonCluster)
	second.Name, second.Spec = "main", first.Spec
	second.Spec.Safekeepers.Lost, second.Spec.Pageservers.Count = nil, 2
	_, err := w.clusters.Create(t.Context(), second)
	w.ok(err)
	c := w.ready()
	for name, id := range claims {
		if is := w.claimIDs()[name]; is != id {
			t.Errorf("claim %s is %q and was %q", name, is, id)
		}
	}
	if diff := cmp.Diff(shown(first.Status.Safekeepers), shown(c.Status.Safekeepers)); diff != "" {
		t.Errorf("safekeepers (-first +second):\n%s", diff)
	}
	want := append(shown(first.Status.Pageservers), "3:zone-3")
	if diff := cmp.Diff(want, shown(c.Status.Pageservers)); diff != "" {
		t.Errorf("pageservers (-want +got):\n%s", diff)
	}
	if c.Status.NextSafekeeper != 5 || c.Status.NextPageserver != 4 {
		t.Errorf("the next ids are %d and %d", c.Status.NextSafekeeper, c.Status.NextPageserver)
	}
	if diff := cmp.Diff([]int64{2, 3, 4}, w.located(tenantID)); diff != "" {
		t.Errorf("the timeline is elsewhere (-want +got):\n%s", diff)
	}
}

// claimIDs returns the uids of the claims by their names.
func (w *world) claimIDs() map[string]types.UID {
	w.Helper()
	ids := map[string]types.UID{}
	for c, err := range w.claims.List(w.Context()) {
		w.ok(err)
		ids[c.Name] = c.UID
	}
	return ids
}
