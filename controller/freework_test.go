package controller

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pintle-go/pintle/kube"
)

// A reconcile that fails, and says so in the status each time, is tried again by its back-off.
// That is no loop.
func TestFailureInAStatusIsFree(t *testing.T) {
	for _, every := range []time.Duration{2 * time.Second, 30 * time.Second, time.Minute} {
		t.Run(fmt.Sprint(every), func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.put("g", func(*gizmo) {})
				runs := 0
				s.start(Options{}, Controller[gizmo]{
					Backoff: Backoff{Min: every, Max: every},
					Reconcile: func(ctx context.Context, g *gizmo) (Action, error) {
						runs++
						if err := s.seen(ctx, g.Name, runs); err != nil { // the number of tries
							return Done, err
						}
						return Done, errBroken
					},
				})
				s.sleep(130 * every)
				s.noneHot()
			})
		})
	}
}

// Each reconcile has work that others gave, but more causes than are kept.
func TestOthersWorkBehindManyOwnIsFree(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("a", func(*gizmo) {})
		s.put("work", func(*gizmo) {})
		toA := func(context.Context, *gizmo) []kube.Key { return []kube.Key{named("a")} }
		s.start(Options{}, Controller[gizmo]{
			Predicate: only("a"), Watches: []Source{Owned(s.gizmos), Mapped(s.gizmos, toA, only("work"))},
			Reconcile: func(ctx context.Context, g *gizmo) (Action, error) {
				if g.Name != "a" {
					return Done, nil
				}
				size := s.gizmo("work").Spec.Size
				for i := range 20 {
					c := child(g, fmt.Sprint("child-", i))
					c.Spec.Size = size
					if _, err := s.gizmos.Ensure(ctx, c); err != nil {
						return Done, err
					}
				}
				time.Sleep(100 * time.Millisecond)
				return Done, nil
			},
		})
		s.sleep(time.Second)
		random := rand.New(rand.NewPCG(1, 2))
		for range 400 { // a user's changes, 12 a second
			s.put("work", func(g *gizmo) { g.Spec.Size++ })
			s.sleep(time.Duration(70+random.IntN(30)) * time.Millisecond)
		}
		s.sleep(time.Minute)
		s.noneHot()
	})
}

// Others change the status of a child at their own pace, and the reconcile answers with its spec, as an
// autoscaler does: fewer reconciles than one a second.
func TestAutoscalerIsFree(t *testing.T) {
	for _, every := range []time.Duration{1500 * time.Millisecond, 3 * time.Second, 5 * time.Second} {
		t.Run(fmt.Sprint(every), func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.put("a", func(*gizmo) {})
				s.start(Options{}, Controller[gizmo]{
					Predicate: only("a"), Watches: []Source{Owned(s.gizmos)},
					Reconcile: func(ctx context.Context, g *gizmo) (Action, error) {
						if g.Name != "a" {
							return Done, nil
						}
						c := child(g, "child")
						if is := s.gizmo("child"); is != nil {
							c.Spec.Size = is.Status.Seen // the load
						}
						_, err := s.gizmos.Ensure(ctx, c)
						return Done, err
					},
				})
				s.sleep(time.Second)
				for i := range 300 {
					s.put("child", func(c *gizmo) { c.Status.Seen = i + 1 })
					s.sleep(every)
				}
				s.noneHot()
			})
		})
	}
}

// Failed writes the error into a condition, as docs/concepts.md shows, and the error differs each time.
func TestFailedThatWritesIsFree(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("g", func(*gizmo) {})
		runs := 0
		s.start(Options{}, Controller[gizmo]{
			Reconcile: func(context.Context, *gizmo) (Action, error) {
				runs++
				return Done, fmt.Errorf("request %d: %w", runs, errBroken)
			},
			Failed: func(ctx context.Context, g *gizmo, err error) error { return s.seen(ctx, g.Name, runs) },
		})
		s.sleep(24 * time.Hour)
		s.noneHot()
	})
}
