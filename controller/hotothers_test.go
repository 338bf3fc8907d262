package controller

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pintle-go/pintle/kube"
)

// answers plays another controller, such as the Deployment controller: a while after the spec of a
// child has changed, it writes the child's status, in so many steps.
func (s *stage) answers(name string, after time.Duration, steps int) {
	ended, stopped := make(chan struct{}), make(chan struct{})
	s.Cleanup(func() { close(ended); <-stopped })
	go func() {
		defer close(stopped)
		for answered, wait := int64(0), time.Millisecond; ; wait = time.Millisecond {
			g, times := s.gizmo(name), 0
			if g != nil && g.Generation != answered {
				wait, times, answered = after, steps, g.Generation
			}
			for i := range max(times, 1) {
				select {
				case <-ended:
					return
				case <-time.After(wait):
				}
				if times > 0 {
					s.put(name, func(c *gizmo) { c.Status.Seen = int(g.Generation)*1000 + i })
				}
			}
		}
	}()
}

// A reconcile that writes the spec of a child each time is in a loop, also if another controller
// answers each write with a write of the child's status.
func TestLoopByWayOfAnotherController(t *testing.T) {
	for _, after := range []time.Duration{time.Millisecond, 20 * time.Millisecond, 300 * time.Millisecond} {
		for _, takes := range []time.Duration{0, 30 * time.Millisecond} {
			t.Run(fmt.Sprint(after, " ", takes), func(t *testing.T) {
				onStage(t, func(s *stage) {
					s.put("a", func(*gizmo) {})
					s.answers("child", after, 1)
					var runs atomic.Int64
					s.start(Options{}, Controller[gizmo]{
						Predicate: only("a"),
						Watches: []Source{Owned(s.gizmos, func(c kube.Change) bool {
							return !c.NewGeneration() // its own writes cause nothing
						})},
						Reconcile: func(ctx context.Context, g *gizmo) (Action, error) {
							if g.Name != "a" {
								return Done, nil
							}
							c := child(g, "child")
							c.Spec.Size = int(runs.Add(1))
							time.Sleep(takes)
							_, err := s.gizmos.Ensure(ctx, c)
							time.Sleep(takes)
							return Done, err
						},
					})
					s.sleep(3 * time.Minute)
					if n := s.log.count("reconciled in a loop", "default/a"); n != 1 {
						t.Errorf("%d reports, want one", n)
					}
					before := runs.Load()
					s.sleep(20 * time.Second)
					if n := runs.Load() - before; n < 10 || n > 21 {
						t.Errorf("%d reconciles in 20 seconds", n)
					}
				})
			})
		}
	}
}

// What another controller writes after one write of the spec is no loop, however often it writes,
// and whether it does so at once or later. Nor is what follows a change of the spec by others.
func TestOthersAnswersAreFree(t *testing.T) {
	for name, test := range map[string]struct {
		after time.Duration // to each answer
		steps int
		edits int // of the object's spec, by a user
	}{
		"a rollout of 50 pods": {10 * time.Millisecond, 150, 20},
		"a slow rollout":       {3 * time.Second, 50, 5},
		"jobs":                 {2 * time.Second, 1, 200},
		"quick edits":          {time.Millisecond, 1, 500},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.put("a", func(*gizmo) {})
				s.answers("child", test.after, test.steps)
				s.start(Options{}, Controller[gizmo]{
					Predicate: only("a"), Watches: []Source{Owned(s.gizmos)},
					Reconcile: func(ctx context.Context, g *gizmo) (Action, error) {
						if g.Name != "a" {
							return Done, nil
						}
						c := child(g, "child")
						c.Spec.Size = g.Spec.Size
						if _, err := s.gizmos.Ensure(ctx, c); err != nil {
							return Done, err
						}
						g.Status.Seen = s.gizmo("child").Status.Seen
						return Done, s.gizmos.Status().Ensure(ctx, g)
					},
				})
				for range test.edits {
					s.put("a", func(g *gizmo) { g.Spec.Size++ })
					s.sleep(time.Duration(test.steps) * test.after / 2)
					s.sleep(10 * time.Millisecond)
				}
				s.sleep(time.Minute)
				if a, c := s.gizmo("a"), s.gizmo("child"); a.Status.Seen != c.Status.Seen {
					t.Errorf("the status shows %d of %d", a.Status.Seen, c.Status.Seen)
				}
				s.noneHot()
			})
		})
	}
}

// An object whose reconcile replaces it by one of the same name is in a loop, which is reported
// once in five minutes.
func TestLoopOverOneName(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("g", func(*gizmo) {})
		s.start(Options{}, Controller[gizmo]{Reconcile: func(ctx context.Context, g *gizmo) (Action, error) {
			if err := s.gizmos.Delete(ctx, g.Name); err != nil {
				return Done, err
			}
			next := new(gizmo)
			next.Name = g.Name
			_, err := s.gizmos.Create(ctx, next)
			return Done, err
		}})
		s.sleep(12 * time.Minute)
		if n := s.log.count("reconciled in a loop"); n < 2 || n > 3 {
			t.Errorf("the loop is reported %d times in twelve minutes:\n%s", n, s.log.tail(3))
		}
	})
}

// A write that leaves an object as it is causes nothing, also if no store has the object.
func TestIdleWriteIsNotHot(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("hot", func(*gizmo) {})
		s.put("looks", func(*gizmo) {})
		elsewhere := s.connect(newPlayed())
		s.start(Options{}, Controller[gizmo]{
			Watches: []Source{Mapped(s.gizmos, func(context.Context, *gizmo) []kube.Key { return []kube.Key{named("looks")} })},
			Reconcile: func(ctx context.Context, g *gizmo) (Action, error) {
				if g.Name == "hot" {
					return Done, s.seen(ctx, g.Name, g.Status.Seen+1)
				}
				c := new(gizmo)
				c.Name = "still"
				_, err := elsewhere.Apply(ctx, c)
				return Done, err
			},
		})
		s.sleep(5 * time.Minute)
		hot := s.log.count("reconciled in a loop", "object=default/hot")
		if looks := s.log.count("reconciled in a loop", "object=default/looks"); hot == 0 || looks > 0 {
			t.Errorf("%d and %d reports:\n%s", hot, looks, s.log.tail(3))
		}
	})
}
