package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/wire"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
	"github.com/pintle-go/pintle/ready"
)

// TestPass holds the turns of safekeepers to their rules.
func TestPass(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		is     turn
		behind string
		now    int64
		waits  string
		change []int64 // those that may be changed then
	}{
		"all is done": {is: turn{}, now: 0},
		"the first": {
			is:  turn{outdated: []int64{1, 2, 3}},
			now: 1, waits: "safekeeper 1 is about", change: []int64{1},
		},
		"it starts": {
			is:  turn{now: 1, outdated: []int64{2, 3}, unready: []int64{1}},
			now: 1, waits: "safekeeper 1 is being", change: []int64{1},
		},
		"it is not applied yet": {
			is:  turn{now: 1, outdated: []int64{1, 2, 3}},
			now: 1, waits: "safekeeper 1 is about", change: []int64{1},
		},
		"the next": {
			is:  turn{now: 1, outdated: []int64{2, 3}},
			now: 2, waits: "safekeeper 2 is about", change: []int64{2},
		},
		"it lags": {
			is:     turn{now: 1, outdated: []int64{2, 3}},
			behind: "it lags", now: 0, waits: "it lags",
		},
		"the last": {is: turn{now: 3}, behind: "not asked", now: 0},
		"another is down": {
			is:  turn{outdated: []int64{2, 3}, unready: []int64{1}},
			now: 0, waits: "safekeeper 1 is not ready",
		},
		"one that is down first": {
			is:  turn{outdated: []int64{1, 2, 3}, unready: []int64{3}},
			now: 3, waits: "safekeeper 3", change: []int64{3},
		},
		"two are down": {
			is:  turn{outdated: []int64{1, 2, 3}, unready: []int64{2, 3}},
			now: 2, waits: "safekeeper 2", change: []int64{2},
		},
		"down at its turn": {
			is:  turn{now: 2, outdated: []int64{2, 3}, unready: []int64{2}},
			now: 2, waits: "safekeeper 2", change: []int64{2},
		},
		"another at its turn": {
			is:  turn{now: 2, outdated: []int64{2}, unready: []int64{3}},
			now: 0, waits: "safekeeper 3 is not ready",
		},
		"another that needs it": {
			is:  turn{now: 2, outdated: []int64{2, 3}, unready: []int64{3}},
			now: 3, waits: "safekeeper 3", change: []int64{3},
		},
		"one leaves": {
			is:  turn{outdated: []int64{1}, leaving: []int64{4}},
			now: 0, waits: "safekeeper 4 leaves",
		},
	} {
		got := c.is
		got.pass(func() string { return c.behind })
		if got.now != c.now || !strings.Contains(got.waits, c.waits) || (c.waits == "") != (got.waits == "") {
			t.Errorf("%s: turn %d, %q, want %d, %q", name, got.now, got.waits, c.now, c.waits)
		}
		var change []int64
		for id := int64(1); id <= 4; id++ {
			if got.mayChange(id) {
				change = append(change, id)
			}
		}
		if diff := cmp.Diff(c.change, change); diff != "" {
			t.Errorf("%s may be changed (-want +got):\n%s", name, diff)
		}
	}
}

// quorum watches that at most one pod of the safekeepers is away or not ready.
type quorum struct {
	mu     sync.Mutex
	worst  []string
	images map[string]string // of the StatefulSets
	order  []string          // in which StatefulSets were changed
}

func (q *quorum) watch(ctx context.Context, w *world, over chan<- error) {
	up := map[string]bool{}
	for ev, err := range w.pods.Watch(ctx) {
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			over <- err
			return
		}
		pod := ev.Object
		if !ev.Type.IsChange() || !strings.HasPrefix(pod.Name, "main-safekeeper-") {
			continue
		}
		up[pod.Name] = ev.Type != kube.Deleted && pod.DeletionTimestamp == nil && ready.Is(pod)
		var down []string
		for name, is := range up {
			if !is {
				down = append(down, name)
			}
		}
		q.mu.Lock()
		if len(up) >= 3 && len(down) > len(q.worst) {
			q.worst = down
		}
		q.mu.Unlock()
	}
	over <- nil
}

// follow notes in which order StatefulSets get another image.
func (q *quorum) follow(ctx context.Context, w *world, over chan<- error) {
	for ev, err := range w.sets.Watch(ctx) {
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			over <- err
			return
		}
		s := ev.Object
		if !ev.Type.IsChange() || s.Labels[componentLabel] != "safekeeper" {
			continue
		}
		image := s.Spec.Template.Spec.Containers[0].Image
		q.mu.Lock()
		if was := q.images[s.Name]; was != "" && was != image {
			q.order = append(q.order, s.Name+" "+image)
		}
		q.images[s.Name] = image
		q.mu.Unlock()
	}
	over <- nil
}

// updated reports that all pods have an image.
func (w *world) updated(image string) bool {
	w.Helper()
	n := 0
	for pod, err := range w.pods.List(w.Context()) {
		w.ok(err)
		if pod.Labels[instanceLabel] == "main" && pod.Spec.Containers[0].Image != image {
			return false
		}
		n++
	}
	return n >= 7
}

// TestRoll rolls out images: with an operator that is killed again and again, with a safekeeper
// that is behind, and with drains that never end.
func TestRoll(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.timeline(tenantID, 1)
	w.timeline(otherID, 1)
	q := &quorum{images: map[string]string{}}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 2)
	go q.watch(ctx, w, over)
	go q.follow(ctx, w, over)
	w.until("the StatefulSets are seen", func(*api.NeonCluster) bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		return len(q.images) == 3
	})

	w.Log("a safekeeper is behind: no one is restarted")
	w.lab.Keepers[2].Faults.Add(wire.Fault{Method: "GET", Path: "/timeline/", Status: 503})
	w.change(func(c *api.NeonCluster) { c.Spec.Image = "neon:2" })
	w.until("the roll waits for safekeeper 2", says("safekeeper-turn", "on safekeeper 2"))
	q.mu.Lock()
	if len(q.order) != 0 {
		t.Errorf("%v are changed while a safekeeper is behind", q.order)
	}
	q.mu.Unlock()
	w.lab.Keepers[2].Faults.Clear()

	w.Log("the operator is killed again and again")
	for kills := 0; ; kills++ {
		n := 0
		c := w.until("a step is done", func(c *api.NeonCluster) bool {
			n++
			return n > 40 || isReady(c) && w.updated("neon:2")
		})
		if isReady(c) && w.updated("neon:2") {
			w.Logf("the operator was killed %d times", kills)
			break
		}
		if kills > 100 {
			w.show(c)
			t.Fatal("the roll does not end")
		}
		w.restart()
	}
	want := []string{"main-safekeeper-1 neon:2", "main-safekeeper-2 neon:2", "main-safekeeper-3 neon:2"}
	q.mu.Lock()
	slices.Sort(q.order)
	if diff := cmp.Diff(want, q.order); diff != "" {
		t.Errorf("the safekeepers are changed (-want +got):\n%s", diff)
	}
	if len(q.worst) > 1 {
		t.Errorf("%v are down at the same time", q.worst)
	}
	q.mu.Unlock()
	cancel()
	for range 2 {
		w.ok(<-over)
	}
	drains(w, "/drain", 1, 2)
	drains(w, "/fill", 1, 2)

	w.Log("a drain never ends: it is cancelled")
	w.lab.Controller.Hold(0)
	w.change(func(c *api.NeonCluster) { c.Spec.Pageservers.DrainTimeoutSeconds = 5 })
	w.change(func(c *api.NeonCluster) { c.Spec.Pageservers.Resources = cpu("10m") })
	released := false
	w.until("the pageservers are restarted", func(c *api.NeonCluster) bool {
		r := c.Status.PageserverRoll
		if !released && (len(w.requests("DELETE", "/drain")) > 0 || r != nil && r.Step == restarting) {
			w.lab.Controller.Release() // the cancelled operation ends
			released = true
		}
		return released && isReady(c) && w.asks("10m")
	})
	if n := len(w.requests("DELETE", "/drain")); n == 0 {
		t.Error("the drain is not cancelled")
	}

	w.Log("a pageserver without another one is just restarted")
	w.change(func(c *api.NeonCluster) { c.Spec.Pageservers.Count = 1 })
	w.retried(func() error { return w.controller().SetPlacement(t.Context(), tenantID, upstream.Attached(0)) })
	w.retried(func() error { return w.controller().SetPlacement(t.Context(), otherID, upstream.Attached(0)) })
	w.until("one pageserver is left", func(c *api.NeonCluster) bool { return isReady(c) && len(c.Status.Pageservers) == 1 })
	before := len(w.requests("PUT", "/drain"))
	w.change(func(c *api.NeonCluster) { c.Spec.Pageservers.Resources = cpu("20m") })
	w.until("the pageserver is restarted", func(c *api.NeonCluster) bool { return isReady(c) && w.asks("20m") })
	if n := len(w.requests("PUT", "/drain")); n != before {
		t.Errorf("it was drained %d times", n-before)
	}
}

// asks reports that the pods of the pageservers ask for an amount of CPU.
func (w *world) asks(amount string) bool {
	w.Helper()
	for pod, err := range w.pods.List(w.Context()) {
		w.ok(err)
		if pod.Labels[componentLabel] == "pageserver" && pod.Spec.Containers[0].Resources.Requests.Cpu().String() != amount {
			return false
		}
	}
	return true
}

func cpu(amount string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}}
}

// drains sees that each pageserver was drained or filled.
func drains(w *world, operation string, ids ...int) {
	w.Helper()
	all := w.requests("PUT", operation)
	for _, id := range ids {
		if !slices.Contains(all, fmt.Sprintf("/control/v1/node/%d%s", id, operation)) {
			w.Errorf("pageserver %d has no %s: %v", id, operation, all)
		}
	}
}
