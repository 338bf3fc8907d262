package controller

import (
	"context"
	"testing"
	"time"

	"github.com/pintle-go/pintle/lease"
)

// A deployed program steps down for a developer's, in order. It goes on when the
// developer's has ended: its Run does not return, and it sees the writes in between.
func TestStepDown(t *testing.T) {
	onLeasedStage(t, func(s *stage, server *playedLease) {
		for _, name := range []string{"a", "b"} {
			s.put(name, func(*gizmo) {})
		}
		var here, everywhere toggles
		seen := make(map[string]int)
		var finished time.Time
		l := lease.Lease{Name: "one", Namespace: "default", Identity: "deployed"}
		r := s.running(Options{Lease: l, Runnables: []Runnable{
			{Name: "here", Run: here.run}, {Name: "everywhere", Run: everywhere.run, EveryReplica: true},
		}}, Controller[gizmo]{Concurrency: 1, For: s.gizmos, Reconcile: func(_ context.Context, g *gizmo) (Action, error) {
			if g.Spec.Size == 1 {
				time.Sleep(8 * time.Second)
				finished = time.Now()
			}
			seen[g.Name] = g.Spec.Size
			return Done, nil
		}})
		s.sleep(10 * time.Second)
		s.put("a", func(g *gizmo) { g.Spec.Size = 1 })
		s.sleep(time.Second) // its reconcile is under way

		l.Client, l.Identity, l.TakeOver = s.connect(server).Client(), "developer", true
		ctx, leave := context.WithCancel(s.Context())
		left := make(chan error, 1)
		var began time.Time
		go func() {
			left <- l.Run(ctx, func(ctx context.Context) error {
				began = time.Now()
				<-ctx.Done()
				return nil
			})
		}()
		s.sleep(30 * time.Second)
		if server.holder() != "developer" || began.Before(finished) || seen["a"] != 1 {
			s.Errorf("%q holds the lease since %s; the reconcile finished at %s", server.holder(), began, finished)
		}
		if here.on.Load() || !everywhere.on.Load() {
			s.Errorf("under the lease something runs: %t; in every replica: %t", here.on.Load(), everywhere.on.Load())
		}
		s.put("b", func(g *gizmo) { g.Spec.Size = 2 })
		s.sleep(time.Minute)
		if seen["b"] != 0 {
			s.Error("b is reconciled without the lease")
		}
		leave()
		if err := <-left; err != nil {
			s.Error(err)
		}
		s.sleep(20 * time.Second) // both are reconciled again, one at a time
		if server.holder() != "deployed" || seen["b"] != 2 || !here.on.Load() {
			s.Errorf("%q holds the lease, b was seen as %d, here runs: %t", server.holder(), seen["b"], here.on.Load())
		}
		if here.begun.Load() != 2 || everywhere.begun.Load() != 1 {
			s.Errorf("they were begun %d and %d times", here.begun.Load(), everywhere.begun.Load())
		}
		select {
		case <-r.ended:
			s.Errorf("Run returns %v", r.err)
		default:
		}
		r.stop()
		if r.returns(); r.err != nil || server.holder() != "" {
			s.Errorf("Run returns %v; %q holds the lease", r.err, server.holder())
		}
	})
}

// One of the program's functions panics when it is told the holder of the lease. This
// ends nothing.
func TestOnChangeThatPanics(t *testing.T) {
	onLeasedStage(t, func(s *stage, server *playedLease) {
		s.put("a", func(*gizmo) {})
		s.start(Options{Lease: lease.Lease{
			Name: "one", Namespace: "default", Identity: "here", OnChange: func(string, bool) { panic("who") },
		}}, Controller[gizmo]{Reconcile: func(context.Context, *gizmo) (Action, error) { return Done, nil }})
		s.sleep(time.Minute)
		if len(s.ran("a")) != 1 || s.log.count("panic: who") == 0 {
			s.Errorf("%v:\n%s", s.ran("a"), s.log)
		}
	})
}
