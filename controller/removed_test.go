package controller

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pintle-go/pintle/kube"
)

// The request of a hook is carried out even if the object is recreated before its turn.
func TestHookOfRecreatedObject(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("busy", func(*gizmo) {})
		s.put("g", func(*gizmo) {})
		var recreated atomic.Bool
		work := make(chan struct{})
		started := make(chan *engine[gizmo], 1)
		var causes []Cause
		s.run(Options{}, spied{Controller[gizmo]{
			For: s.gizmos, Concurrency: 1,
			Predicate: func(kube.Change) bool { return !recreated.Load() },
			Reconcile: func(ctx context.Context, g *gizmo) (Action, error) {
				switch {
				case g.Name == "busy" && g.Spec.Size > 0:
					<-work
				case recreated.Load():
					causes = Causes(ctx)
				}
				return Done, nil
			},
		}, started})
		e := <-started
		s.sleep(time.Second)
		s.put("busy", func(g *gizmo) { g.Spec.Size = 1 })
		s.sleep(time.Second)
		recreated.Store(true)
		askFor(e, request{key: named("g"), priority: live, cause: Cause{Reason: Triggered, Source: "hook"}})
		s.sleep(time.Second)
		s.delete("g")
		s.put("g", func(*gizmo) {})
		s.sleep(time.Second)
		close(work)
		s.sleep(time.Second)
		if len(causes) != 1 || causes[0].Reason != Triggered {
			t.Errorf("the recreated object is reconciled because of %v, want the hook", causes)
		}
	})
}

// After an object is gone, the requests of its last reconcile are dropped, and nothing is
// remembered. A new object of the name starts without a history.
func TestNothingComesAfterTheLastTurn(t *testing.T) {
	for name, result := range map[string]func() (Action, error){
		"failed":   func() (Action, error) { return Done, errBroken },
		"terminal": func() (Action, error) { return Done, Terminal(errBroken) },
		"after":    func() (Action, error) { return After(time.Hour), nil },
		"done":     func() (Action, error) { return Done, nil },
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.put("g", func(*gizmo) {})
				started := make(chan *engine[gizmo], 1)
				var runs []Cause
				s.run(Options{}, spied{Controller[gizmo]{
					For: s.gizmos, Resync: time.Hour, Backoff: Backoff{Min: time.Minute},
					Reconcile: func(ctx context.Context, g *gizmo) (Action, error) {
						runs = append(runs, Causes(ctx)...)
						if g.Spec.Size > 0 {
							return Await, nil
						}
						g.Status.Seen++
						if err := s.gizmos.Status().Apply(ctx, g); err != nil {
							return Done, err
						}
						time.Sleep(time.Second)
						s.delete("g")
						time.Sleep(time.Second)
						return result()
					},
				}, started})
				d := (<-started).current.Load()
				s.sleep(3 * time.Second)
				waiting, histories := 0, 0
				d.inspect(func() { waiting, histories = len(d.queue.waiting), len(d.histories) })
				if waiting+histories > 0 {
					t.Errorf("%d requests and %d histories are left of an object that is gone", waiting, histories)
				}
				s.put("g", func(g *gizmo) { g.Spec.Size = 1 })
				s.sleep(3 * time.Hour)
				var reasons []Reason
				for _, c := range runs {
					reasons = append(reasons, c.Reason)
				}
				if want := []Reason{Listed, Changed}; !slices.Equal(reasons, want) {
					t.Errorf("the reconciles of two objects came from %v, want %v", reasons, want)
				}
			})
		})
	}
}

// A reconcile fails, and its object goes before Failed writes the status. Nothing is said
// of that.
func TestFailedFindsTheObjectGone(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("g", func(*gizmo) {})
		s.start(Options{}, Controller[gizmo]{
			Reconcile: func(context.Context, *gizmo) (Action, error) { return Done, errBroken },
			Failed: func(ctx context.Context, g *gizmo, _ error) error {
				s.delete("g")
				return s.gizmos.Status().Apply(ctx, g)
			},
		})
		s.sleep(time.Second)
		if n := s.log.count("cannot report the failure"); n > 0 {
			t.Errorf("%d warnings about an object that is gone:\n%s", n, s.log)
		}
	})
}

// An object is recreated, or leaves the selection and comes back, while the predicate is
// held up. The present object is reconciled before the end of the former one is known. That
// end drops no request of the present object, and does not let it be reconciled too soon.
func TestLateEndOfTheObjectBefore(t *testing.T) {
	for name, late := range map[string]struct {
		result func() (Action, error)
		passes bool // the predicate lets the addition of the present object pass
		again  time.Duration
		reason Reason
	}{
		"after":    {func() (Action, error) { return After(time.Hour), nil }, false, time.Hour, Requested},
		"failed":   {func() (Action, error) { return Done, errBroken }, false, 30 * time.Minute, Retried},
		"resync":   {func() (Action, error) { return Done, nil }, false, 5 * time.Hour, Resynced},
		"interval": {func() (Action, error) { return Await, nil }, true, 10 * time.Minute, Changed},
	} {
		for _, comesBack := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", the same object: ", comesBack), func(t *testing.T) {
				onStage(t, func(s *stage) {
					s.put("busy", func(*gizmo) {})
					s.put("g", func(*gizmo) {})
					open, ask := make(chan struct{}), make(chan kube.Key)
					s.start(Options{}, Controller[gizmo]{
						Resync: 5 * time.Hour, Backoff: Backoff{Min: 30 * time.Minute, Max: time.Hour}, MinInterval: 10 * time.Minute,
						Watches: []Source{Channel("asked", ask)},
						Predicate: func(c kube.Change) bool {
							if c.Key.Name == "busy" && c.Type == kube.Modified {
								<-open
								return false
							}
							return late.passes || c.Type != kube.Added || c.Key.Name != "g"
						},
						Reconcile: func(_ context.Context, g *gizmo) (Action, error) {
							if g.Spec.Size == 1 {
								return late.result()
							}
							return Await, nil
						},
					})
					s.sleep(time.Hour)
					s.put("busy", func(g *gizmo) { g.Spec.Size = 1 })
					synctest.Wait()
					was := s.gizmo("g")
					s.delete("g")
					s.put("g", func(g *gizmo) {
						g.Spec.Size = 1
						if comesBack {
							g.UID = was.UID
						}
					})
					synctest.Wait()
					before := len(s.ran("g"))
					ask <- named("g")
					synctest.Wait()
					if n := len(s.ran("g")) - before; n != 1 {
						s.Errorf("the present object was reconciled %d times", n)
					}
					begun := time.Since(s.begun)
					s.sleep(time.Second)
					close(open)
					s.sleep(6 * time.Hour)
					runs := s.ran("g")[before+1:]
					if len(runs) == 0 {
						s.Error("the present object is not reconciled again")
						return
					}
					took := runs[0].at - begun
					if took < late.again/3 || took > late.again*6/5 || runs[0].reasons()[0] != late.reason {
						s.Errorf("the next reconcile is after %s because of %v", took, runs[0].reasons())
					}
				})
			})
		}
	}
}
