package cluster

import (
	"context"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/assassin"
	"github.com/pintle-go/pintle/operators/neon/internal/trust"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

// watched returns a transport whose requests the assassin sees, if there is one.
func (w *world) watched(to http.RoundTripper) http.RoundTripper {
	if w.assassin == nil {
		return refusal{w, to}
	}
	return seen{w.assassin, to}
}

// seen has an assassin count the writes.
type seen struct {
	by *assassin.Assassin
	to http.RoundTripper
}

func (s seen) RoundTrip(r *http.Request) (*http.Response, error) { return s.by.APIServer(r, s.to) }

// succeed starts another operator if the one that ran was killed.
func (w *world) succeed() {
	w.Helper()
	if w.assassin == nil {
		return
	}
	select {
	case <-w.assassin.Done():
		w.Logf("killed at %s", w.assassin.Where())
		w.stop()
		w.assassin = w.hire()
		w.start()
	default:
	}
}

// TestKilled kills operators of a cluster's life at some of their writes, with or without the write's
// effect.
func TestKilled(t *testing.T) {
	t.Parallel()
	seed := rapid.IntRange(0, 6).Example()
	t.Logf("seed %d", seed)
	killed(t, func(n int) (at int, effect bool) { return 2 + seed + 9*n, n%2 == 0 })
}

// TestSoakKilled kills them at each of their writes: once with its effect, and once without it.
func TestSoakKilled(t *testing.T) {
	for name, effect := range map[string]bool{"with the effect": true, "without it": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			killed(t, func(n int) (int, bool) { return n + 1, effect })
		})
	}
}

// killed makes a cluster, rolls an image out, loses members and deletes the cluster. In each of these
// phases the nth operator, from 0 on, is killed at the write that choose returns, until one lives to the
// end of the phase: an operator that starts applies all children once. Nothing is made twice, and
// nothing is left.
func killed(t *testing.T, choose func(n int) (at int, effect bool)) {
	t.Helper()
	kills, n := 0, 0
	w := newWorldOf(t, trust.Terms{}, nil, func(w *world) {
		w.hire = func() *assassin.Assassin {
			a := assassin.New()
			a.Arm(choose(n))
			n++
			return a
		}
		w.assassin = w.hire()
	})
	// The test's own requests are not the operator's.
	calm := func() {
		w.Helper()
		w.stop()
		w.assassin = nil
		w.start()
		t.Logf("%d operators were killed", n-1)
		kills += n - 1
	}
	rage := func() {
		w.stop()
		n = 0
		w.assassin = w.hire()
		w.start()
	}
	calm()
	w.members([]int64{1, 2, 3}, []int64{1, 2})
	w.timeline(tenantID, 1)
	images := &quorum{images: map[string]string{}}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 2)
	go images.watch(ctx, w, over)
	go images.follow(ctx, w, over)
	w.until("the StatefulSets are seen", func(*api.NeonCluster) bool {
		images.mu.Lock()
		defer images.mu.Unlock()
		return len(images.images) == 3
	})

	w.Log("another image")
	rage()
	w.change(func(c *api.NeonCluster) { c.Spec.Image = "neon:2" })
	w.until("the image is rolled out", func(c *api.NeonCluster) bool {
		return isReady(c) && c.Status.PageserverRoll == nil && w.updated("neon:2")
	})
	calm()
	cancel()
	for range 2 {
		w.ok(<-over)
	}
	want := []string{"main-safekeeper-1 neon:2", "main-safekeeper-2 neon:2", "main-safekeeper-3 neon:2"}
	slices.Sort(images.order)
	if diff := cmp.Diff(want, images.order); diff != "" || len(images.worst) > 1 {
		t.Errorf("%v were down at the same time; the safekeepers were changed (-want +got):\n%s", images.worst, diff)
	}
	drains(w, "/drain", 1, 2)

	w.Log("members leave")
	rage()
	w.change(func(c *api.NeonCluster) { c.Spec.Safekeepers.Lost, c.Spec.Pageservers.Count = []int64{1}, 1 })
	w.until("they have left", func(c *api.NeonCluster) bool {
		return isReady(c) && len(c.Status.Safekeepers) == 3 && len(c.Status.Pageservers) == 1
	})
	calm()
	w.members([]int64{2, 3, 4}, []int64{1})
	w.decommissioned(1)
	if diff := cmp.Diff([]int64{2, 3, 4}, w.located(tenantID)); diff != "" {
		t.Errorf("the timeline is elsewhere (-want +got):\n%s", diff)
	}

	w.Log("the cluster is deleted")
	w.ok(w.branches.Delete(t.Context(), "b"+tenantID[:4]))
	w.ok(w.projects.Delete(t.Context(), "p"+tenantID[:4]))
	rage()
	w.ok(w.clusters.Delete(t.Context(), "main"))
	w.until("nothing is left", func(c *api.NeonCluster) bool { return c == nil && len(w.remains()) == 0 })
	t.Logf("%d operators were killed", kills+n-1)
}

// remains returns the names of the objects of the cluster.
func (w *world) remains() (all []string) {
	w.Helper()
	for s, err := range w.secrets.Labeled(instanceLabel + "=main").List(w.Context()) {
		w.ok(err)
		all = append(all, "Secret "+s.Name)
	}
	for s, err := range w.sets.List(w.Context()) {
		w.ok(err)
		all = append(all, "StatefulSet "+s.Name)
	}
	for p, err := range w.pods.List(w.Context()) {
		w.ok(err)
		all = append(all, "Pod "+p.Name)
	}
	for c, err := range w.claims.List(w.Context()) {
		w.ok(err)
		all = append(all, "PersistentVolumeClaim "+c.Name)
	}
	return all
}

// members sees which members the storage controller and the cluster have.
func (w *world) members(safekeepers, pageservers []int64) {
	w.Helper()
	c := w.ready()
	var keepers, servers []int64
	for _, m := range c.Status.Safekeepers {
		keepers = append(keepers, m.ID)
	}
	nodes, err := w.controller().Nodes(w.Context())
	w.ok(err)
	for _, n := range nodes {
		servers = append(servers, n.ID)
	}
	slices.Sort(keepers)
	slices.Sort(servers)
	if !slices.Equal(keepers, safekeepers) || !slices.Equal(servers, pageservers) {
		w.Errorf("the members are %v and %v, want %v and %v", keepers, servers, safekeepers, pageservers)
	}
	for _, id := range safekeepers {
		if r, err := w.controller().Registration(w.Context(), id); err != nil || r.Policy != upstream.SafekeeperActive {
			w.Errorf("safekeeper %d is %q, %v", id, r.Policy, err)
		}
	}
}

// TestKilledTLS kills operators that add TLS to a cluster at some of their writes, and that remove it. Each program is
// restarted as often as it would be by one operator.
func TestKilledTLS(t *testing.T) {
	t.Parallel()
	seed := rapid.IntRange(0, 6).Example()
	t.Logf("seed %d", seed)
	killedTLS(t, func(n int) (at int, effect bool) { return 2 + seed + 9*n, n%2 == 0 })
}

// TestSoakKilledTLS kills them at each of their writes: once with its effect, and once without it.
func TestSoakKilledTLS(t *testing.T) {
	for name, effect := range map[string]bool{"with the effect": true, "without it": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			killedTLS(t, func(n int) (int, bool) { return n + 1, effect })
		})
	}
}

// killedTLS adds TLS to a cluster and removes it. In each of these phases the nth operator, from 0 on, is killed at
// the write that choose returns, until one lives to the end of the phase.
func killedTLS(t *testing.T, choose func(n int) (at int, effect bool)) {
	t.Helper()
	w := newWorldOf(t, trust.Terms{}, nil, (*world).named)
	w.timeline(tenantID, 1)
	ctx, cancel := context.WithCancel(t.Context())
	q, over := &quorum{images: map[string]string{}}, make(chan error, 1)
	go q.watch(ctx, w, over)
	for _, way := range []struct {
		change func(*api.NeonCluster)
		done   func(*api.NeonCluster) bool
	}{{addTLS, hasTLS}, {removeTLS, hasNone}} {
		n := 0
		w.hire = func() *assassin.Assassin {
			a := assassin.New()
			a.Arm(choose(n))
			n++
			return a
		}
		w.stop()
		w.assassin = w.hire()
		w.start()
		seen := new(course)
		w.kubelet()
		c, err := w.clusters.Get(t.Context(), "main")
		w.ok(err)
		seen.see(w, c)
		w.change(way.change)
		c = w.until("TLS is changed", func(c *api.NeonCluster) bool {
			seen.see(w, c)
			return way.done(c)
		})
		w.stop()
		w.assassin = nil
		w.start()
		t.Logf("%d operators were killed", n-1)
		seen.restarts(w, map[string]int{
			"controller": 2, "safekeeper-1": 2, "safekeeper-2": 2, "safekeeper-3": 2, "pageserver-1": 2, "pageserver-2": 2,
		})
		w.likeNew(c)
		if len(w.located(tenantID)) != 3 {
			t.Error("the timeline is not on three safekeepers")
		}
	}
	cancel()
	w.ok(<-over)
	if len(q.worst) > 1 {
		t.Errorf("%v were down at the same time", q.worst)
	}
	w.timeline(otherID, 1)
}
