package controller

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pintle-go/pintle/lease"
)

// running is a call of Run in a test that looks at its end.
type running struct {
	*stage
	stop  context.CancelFunc
	ended chan struct{}
	err   error // of Run, once it has returned
}

// running starts Run. The test must see it return.
func (s *stage) running(o Options, controllers ...Any) *running {
	ctx, stop := context.WithCancel(context.WithoutCancel(s.Context()))
	r := &running{stage: s, stop: stop, ended: make(chan struct{})}
	o.Logger = slog.New(s.log)
	go func() {
		defer close(r.ended)
		r.err = Run(ctx, o, controllers...)
	}()
	s.Cleanup(stop)
	synctest.Wait()
	return r
}

// returns waits until Run has returned and returns how long that took.
func (r *running) returns() time.Duration {
	r.Helper()
	since := time.Now()
	select {
	case <-r.ended:
	case <-time.After(time.Hour):
		r.Fatalf("Run does not return:\n%s", r.log.tail(20))
	}
	took := time.Since(since)
	synctest.Wait() // for the goroutine that was left behind
	return took
}

// wantUnfinished checks that the error names the controller and the object that were left
// behind.
func (r *running) wantUnfinished() {
	r.Helper()
	if !errors.Is(r.err, lease.ErrUnfinished) || !strings.Contains(r.err.Error(), `controller "gizmo"`) ||
		!strings.Contains(r.err.Error(), "default/a") {
		r.Errorf("Run returns %v, want an error that names controller and object", r.err)
	}
}

// A reconcile that heeds no context keeps Run from returning for a bounded time.
func TestReconcileThatDoesNotEnd(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("a", func(*gizmo) {})
		stuck := make(chan struct{})
		defer close(stuck)
		r := s.running(Options{Grace: 10 * time.Second}, Controller[gizmo]{
			For: s.gizmos, Reconcile: func(context.Context, *gizmo) (Action, error) { <-stuck; return Done, nil },
		})
		s.sleep(time.Second)
		r.stop()
		if took := r.returns(); took != 10*time.Second+afterGrace {
			t.Errorf("Run returns %s after it was told to stop", took)
		}
		r.wantUnfinished()
	})
}

// A lease is never released while a reconcile runs, even if Run leaves the reconcile
// behind. Its writes fail then, because another process may act.
func TestLeaseIsNotReleasedUnderAReconcile(t *testing.T) {
	onLeasedStage(t, func(s *stage, server *playedLease) {
		s.put("a", func(*gizmo) {})
		stuck, written := make(chan struct{}), make(chan error, 1)
		held := lease.Lease{Name: "one", Namespace: "default", Identity: "me"}
		r := s.running(Options{Grace: 10 * time.Second, Lease: held},
			Controller[gizmo]{For: s.gizmos, Reconcile: func(ctx context.Context, g *gizmo) (Action, error) {
				<-stuck
				g.Status.Seen = 1
				written <- s.gizmos.Status().Apply(context.WithoutCancel(ctx), g)
				return Done, nil
			}})
		s.sleep(time.Second)
		r.stop()
		r.returns()
		r.wantUnfinished()
		if holder := server.holder(); holder != "me" {
			t.Errorf("%q holds the lease while a reconcile runs", holder)
		}
		close(stuck)
		if err := <-written; err == nil || s.gizmo("a").Status.Seen != 0 {
			t.Errorf("a reconcile that was left behind writes: %v", err)
		}
	})
}

// After the stop began, a reconcile may finish only for as long as the lease is held. A
// reconcile that goes on nevertheless is named before another process may act.
func TestLeaseLostWhileStopping(t *testing.T) {
	for name, heeds := range map[string]bool{"heeds its context": true, "heeds none": false} {
		t.Run(name, func(t *testing.T) {
			onLeasedStage(t, func(s *stage, server *playedLease) {
				s.put("a", func(*gizmo) {})
				stuck := make(chan struct{})
				var cause error
				var ended time.Time
				r := s.running(Options{Grace: time.Minute, Lease: lease.Lease{Name: "one", Namespace: "default"}},
					Controller[gizmo]{For: s.gizmos, Reconcile: func(ctx context.Context, _ *gizmo) (Action, error) {
						<-ctx.Done()
						cause, ended = context.Cause(ctx), time.Now()
						if !heeds {
							<-stuck
						}
						return Done, ctx.Err()
					}})
				s.sleep(time.Second)
				r.stop()
				s.sleep(10 * time.Second)
				if cause != nil {
					t.Errorf("the context ended within the grace period: %v", cause)
				}
				server.give("somebody else")
				given := time.Now()
				took := r.returns()
				if !errors.Is(cause, lease.ErrLost) || ended.Sub(given) > 3*time.Second {
					t.Errorf("the context ended %s after the loss: %v", ended.Sub(given), cause)
				}
				if !errors.Is(r.err, lease.ErrLost) || errors.Is(r.err, lease.ErrUnfinished) == heeds {
					t.Errorf("Run returns %v", r.err)
				}
				if !heeds {
					r.wantUnfinished()
				}
				if took > 6*time.Second { // a renewal, and the margin
					t.Errorf("Run returns %s after the loss", took)
				}
				close(stuck)
			})
		})
	}
}

// The log says that the program stops before it says that a controller has stopped.
func TestStopIsLoggedInOrder(t *testing.T) {
	for range 50 {
		onStage(t, func(s *stage) {
			stop := s.start(Options{}, Controller[gizmo]{Reconcile: func(context.Context, *gizmo) (Action, error) {
				return Done, nil
			}})
			if err := stop(); err != nil {
				t.Error(err)
			}
			log := s.log.String()
			first, second := strings.Index(log, "msg=stopping"), strings.Index(log, "controller has stopped")
			if first < 0 || second < first {
				s.Errorf("the log of a stop:\n%s", log)
			}
		})
		if t.Failed() {
			return
		}
	}
}

// The program learns at the same moment that it must stop and that an activity has ended.
func TestStopIsLoggedBeforeWhatEndsWithIt(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			log := new(logs)
			p := &program{Options: Options{Logger: slog.New(log), Grace: time.Second}}
			ctx, stop := context.WithCancel(t.Context())
			all := []activity{{
				name: "first", run: func(context.Context, context.Context) error { return nil },
				stopped: func() {
					stop()
					synctest.Wait() // the other one has ended, and nobody has noticed
				},
			}, {
				name: "second", run: func(ctx, _ context.Context) error { <-ctx.Done(); return nil },
				stopped: func() { p.Logger.Info("second has stopped") },
			}}
			if err := p.together(ctx, all); err != nil {
				t.Error(err)
			}
			lines := log.String()
			first, second := strings.Index(lines, "msg=stopping"), strings.Index(lines, "second has stopped")
			if first < 0 || second < first {
				t.Errorf("the log of a stop:\n%s", lines)
			}
		})
		if t.Failed() {
			return
		}
	}
}
