package controller

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/lease"
)

// toggles tells whether a function runs, and how often it has begun.
type toggles struct {
	on    atomic.Bool
	begun atomic.Int32
}

func (g *toggles) run(ctx context.Context) error {
	g.begun.Add(1)
	g.on.Store(true)
	<-ctx.Done()
	g.on.Store(false)
	return ctx.Err()
}

// Functions under the lease run while it is held. Functions of every replica run from the
// start, and write with any holder of the lease.
func TestEveryReplica(t *testing.T) {
	onLeasedStage(t, func(s *stage, server *playedLease) {
		s.put("a", func(*gizmo) {})
		var everywhere, elected toggles
		var cares atomic.Int32 // reconciles under the lease
		see := func(gizmos kube.Resource[gizmo]) Controller[gizmo] {
			return Controller[gizmo]{
				Name: "everywhere", EveryReplica: true, For: gizmos,
				Reconcile: func(ctx context.Context, g *gizmo) (Action, error) {
					g.Status.Seen = g.Spec.Size
					return Done, gizmos.Status().Ensure(ctx, g)
				},
			}
		}
		options := Options{
			Lease: lease.Lease{Name: "one", Namespace: "default", Identity: "me"},
			Runnables: []Runnable{
				{Name: "everywhere", EveryReplica: true, Run: everywhere.run}, {Name: "elected", Run: elected.run},
			},
		}
		other := lease.Lease{Name: "one", Namespace: "default", Identity: "other", Client: s.gizmos.Client()}
		ctx, leave := context.WithCancel(s.Context())
		left := make(chan error, 1)
		go func() { left <- other.Run(ctx, func(ctx context.Context) error { <-ctx.Done(); return nil }) }()
		s.sleep(time.Second)

		r := s.running(options, see(s.connect(server)), Controller[gizmo]{
			For: s.connect(server), Reconcile: func(context.Context, *gizmo) (Action, error) {
				cares.Add(1)
				return Done, nil
			},
		})
		s.put("a", func(g *gizmo) { g.Spec.Size = 3 })
		s.sleep(time.Minute)
		if s.gizmo("a").Status.Seen != 3 {
			t.Error("a controller of every replica does not write while another process holds the lease")
		}
		if cares.Load() > 0 || elected.begun.Load() > 0 || !everywhere.on.Load() {
			t.Errorf("in a standby there were %d reconciles; under the lease run: %t; everywhere: %t",
				cares.Load(), elected.on.Load(), everywhere.on.Load())
		}
		leave()
		if err := <-left; err != nil {
			t.Error(err)
		}
		s.sleep(time.Second)
		if cares.Load() != 1 || !elected.on.Load() {
			t.Errorf("%d reconciles with the lease; its runnable runs: %t", cares.Load(), elected.on.Load())
		}
		r.stop()
		r.returns()
		if r.err != nil || everywhere.on.Load() || elected.on.Load() || server.holder() != "" {
			t.Errorf("Run returns %v while something runs: %t, %t; %q holds the lease",
				r.err, everywhere.on.Load(), elected.on.Load(), server.holder())
		}
		if everywhere.begun.Load() != 1 || elected.begun.Load() != 1 {
			t.Errorf("they were begun %d and %d times", everywhere.begun.Load(), elected.begun.Load())
		}
	})
}

// A runnable that fails, or panics, stops the program in order: reconciles finish.
func TestRunnableFails(t *testing.T) {
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		run   func(context.Context) error
		every bool
		is    func(error) bool
	}{
		"under the lease": {
			func(context.Context) error { return broken }, false,
			func(err error) bool { return errors.Is(err, broken) },
		},
		"in every replica": {
			func(context.Context) error { return broken }, true,
			func(err error) bool { return errors.Is(err, broken) },
		},
		"by a panic": {
			func(context.Context) error { panic("oh") }, false,
			func(err error) bool { return stackOf(err) != "" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			onLeasedStage(t, func(s *stage, server *playedLease) {
				s.put("a", func(*gizmo) {})
				var finished atomic.Bool
				r := s.running(Options{
					Lease: lease.Lease{Name: "one", Namespace: "default"},
					Runnables: []Runnable{{Name: "fails", EveryReplica: test.every, Run: func(ctx context.Context) error {
						time.Sleep(time.Second)
						return test.run(ctx)
					}}, {Name: "ends", Run: func(context.Context) error { return nil }}},
				}, Controller[gizmo]{For: s.gizmos, Reconcile: func(ctx context.Context, g *gizmo) (Action, error) {
					time.Sleep(10 * time.Second)
					g.Status.Seen = 1
					err := s.gizmos.Status().Ensure(ctx, g)
					finished.Store(err == nil)
					return After(0), err
				}})
				r.returns()
				if !test.is(r.err) || !strings.Contains(r.err.Error(), `runnable "fails"`) {
					t.Errorf("Run returns %v", r.err)
				}
				if !finished.Load() || len(server.holder()) > 0 {
					t.Errorf("the reconcile has finished: %t; %q holds the lease", finished.Load(), server.holder())
				}
			})
		})
	}
}

// A runnable may finish, and write, within the grace period. Run names a runnable that
// does not end.
func TestRunnableStops(t *testing.T) {
	onLeasedStage(t, func(s *stage, server *playedLease) {
		s.put("a", func(*gizmo) {})
		var written error
		stuck := make(chan struct{})
		defer close(stuck)
		r := s.running(Options{
			Grace: 30 * time.Second,
			Lease: lease.Lease{Client: s.gizmos.Client(), Name: "one", Namespace: "default", Identity: "me"},
			Runnables: []Runnable{{Name: "writes", Run: func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(20 * time.Second) // for longer than the lease lasts
				written = s.gizmos.Status().Apply(lease.Held(ctx), s.gizmo("a"))
				return nil
			}}, {Name: "sticks", Run: func(context.Context) error { <-stuck; return nil }}},
		})
		s.sleep(time.Second)
		r.stop()
		if took := r.returns(); took != 30*time.Second+afterGrace {
			t.Errorf("Run returns after %s", took)
		}
		if written != nil {
			t.Errorf("a write in the grace period: %v", written)
		}
		if !errors.Is(r.err, lease.ErrUnfinished) || !strings.Contains(r.err.Error(), `runnable "sticks"`) ||
			strings.Contains(r.err.Error(), `"writes"`) {
			t.Errorf("Run returns %v", r.err)
		}
		if server.holder() != "me" {
			t.Errorf("%q holds the lease while a runnable runs", server.holder())
		}
	})
}

func TestBadRunnables(t *testing.T) {
	run := func(context.Context) error { return nil }
	for name, all := range map[string][]Runnable{
		"no name":   {{Run: run}},
		"no Run":    {{Name: "a"}},
		"one name":  {{Name: "a", Run: run}, {Name: "a", Run: run, EveryReplica: true}},
		"two wrong": {{}, {Name: "a", Run: run}},
	} {
		if err := Run(t.Context(), Options{Runnables: all}); err == nil {
			t.Errorf("%s: no error", name)
		} else {
			t.Log(err)
		}
	}
}
