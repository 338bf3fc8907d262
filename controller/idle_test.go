package controller

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/pintle-go/pintle/internal/written"
	"github.com/pintle-go/pintle/kube"
)

// heapOf returns the bytes of heap that the result of build takes.
func heapOf(build func() any) int {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	kept := build()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(kept)
	return int(after.HeapAlloc) - int(before.HeapAlloc)
}

// An object that waits only for its resync costs little. An object that was reconciled a
// while ago costs nothing at all.
func TestIdleObjectsAreCheap(t *testing.T) {
	const objects = 100_000
	keys := make([]kube.Key, objects)
	for i := range keys {
		keys[i] = named(fmt.Sprint(i))
	}
	now := time.Unix(1, 0)
	perObject := func(what string, limit int, build func() any) {
		t.Helper()
		n := heapOf(build) / objects
		t.Logf("%s: %d bytes an object", what, n)
		if n > limit {
			t.Errorf("%s: %d bytes an object, want %d at most", what, n, limit)
		}
	}
	perObject("that wait for a resync", 64, func() any {
		q := newQueue(now)
		for i, key := range keys {
			due := now.Add(time.Hour + time.Duration(i))
			q.add(request{key: key, due: due, priority: low, cause: Cause{Reason: Resynced, due: due}}, now)
		}
		return q
	})
	perObject("that were reconciled in a burst", 1, func() any {
		q := newQueue(now)
		for _, key := range keys {
			q.add(request{key: key, cause: Cause{Reason: Triggered}}, now)
		}
		for it := q.take(now); it != nil; it = q.take(now) {
			q.done(it.key, now)
		}
		return q
	})
	d := newDispatcher(1, 0, nil, newDepths())
	wrote := func() {
		for i, key := range keys {
			t := &turn{item: &item{key: key, writes: new(writes)}}
			t.writes.note(written.Write{ResourceVersion: fmt.Sprint(1_000_000 + i)})
			d.remember(t, now)
		}
	}
	perObject("that have just written", 320, func() any { wrote(); return d })
	perObject("that wrote a while ago", -150, func() any { d.fade(now.Add(fadeAfter)); return d })
	if len(d.histories) > 0 || !d.fades.IsZero() {
		t.Errorf("%d objects are remembered that nothing happens to", len(d.histories))
	}
}

// Writes are forgotten though nothing else happens.
func TestWritesFade(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("g", func(g *gizmo) { g.Spec.Size = 1 })
		c := Controller[gizmo]{For: s.gizmos, Predicate: kube.Change.NewGeneration,
			Reconcile: func(ctx context.Context, g *gizmo) (Action, error) {
				g.Status.Seen = g.Spec.Size
				return Done, s.gizmos.Status().Ensure(ctx, g)
			}}
		started := make(chan *engine[gizmo], 1)
		s.run(Options{}, spied{c, started})
		e := <-started
		known := func() (n int) {
			d := e.current.Load()
			d.inspect(func() { n = len(d.histories) })
			return n
		}
		s.sleep(time.Second)
		if n := known(); n != 1 {
			t.Errorf("%d objects are remembered after one has written its status", n)
		}
		s.sleep(2 * fadeAfter)
		if n := known(); n != 0 {
			t.Errorf("%d objects are remembered for good", n)
		}
	})
}

// What is remembered of a key for MinInterval, and of creations, is forgotten when its time has passed,
// and not before.
func TestMemoriesFade(t *testing.T) {
	for name, writes := range map[string]int{"writes": 2, "no writes": 0} {
		t.Run(name, func(t *testing.T) { onStage(t, func(s *stage) { s.memoriesFade(writes) }) })
	}
}

// memoriesFade has a controller that remembers so many facts of writes.
func (s *stage) memoriesFade(writes int) {
	const pace = 10 * time.Minute
	s.put("g", func(*gizmo) {})
	c := Controller[gizmo]{For: s.gizmos, MinInterval: pace,
		Reconcile: func(ctx context.Context, g *gizmo) (Action, error) {
			s.mu.Lock()
			s.runs = append(s.runs, ran{at: time.Since(s.begun), name: g.Name})
			s.mu.Unlock()
			if writes > 0 {
				written.Tell(ctx, written.Write{Name: "child", ResourceVersion: "7", UID: "child", Created: true})
			}
			return Done, nil
		}}
	started := make(chan *engine[gizmo], 1)
	s.run(Options{}, spied{c, started})
	e := <-started
	known := func() (histories, memories int) {
		d := e.current.Load()
		d.inspect(func() { histories = len(d.histories) })
		e.streaks.mu.Lock()
		defer e.streaks.mu.Unlock()
		e.depths.mu.Lock()
		defer e.depths.mu.Unlock()
		return histories, len(e.streaks.young) + len(e.streaks.old) + len(e.depths.young) + len(e.depths.old)
	}
	s.sleep(pace / 2)
	if h, m := known(); h != 1 || m != writes {
		s.Errorf("%d keys and %d writes are remembered, want 1 and %d", h, m, writes)
	}
	s.put("g", func(g *gizmo) { g.Spec.Size++ })
	s.sleep(pace/2 - time.Second)
	if n := len(s.ran("g")); n != 1 {
		s.Errorf("there are %d reconciles within MinInterval", n)
	}
	s.sleep(2 * time.Second)
	if n := len(s.ran("g")); n != 2 {
		s.Errorf("there are %d reconciles after MinInterval, want 2", n)
	}
	s.sleep(pace + 2*fadeAfter)
	if h, _ := known(); h != 0 {
		s.Errorf("%d keys are remembered for good", h)
	}
	s.sleep(3 * written.StreakGap)
	if _, m := known(); m != 0 {
		s.Errorf("%d writes are remembered for good", m)
	}
}

// spied is a controller that shows its engine.
type spied struct {
	Controller[gizmo]
	engine chan<- *engine[gizmo]
}

func (s spied) prepare(env environment) (runner, error) {
	r, err := s.Controller.prepare(env)
	if err == nil {
		s.engine <- r.(*engine[gizmo])
	}
	return r, err
}
