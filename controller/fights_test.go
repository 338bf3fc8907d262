package controller

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/internal/written"
	"github.com/pintle-go/pintle/kube"
)

// other changes the status of a gizmo, as another program does.
func (s *stage) other(name string, seen int) {
	s.put(name, func(g *gizmo) {
		g.Status.Seen = seen
		g.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: "other", Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "status",
			FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:seen":{}}}`),
		}}
	})
}

// Another program sets a field of its own accord, or as soon as it sees that the reconcile has
// put it back. That is a fight, however long the pauses between are. It is reported, with the
// field and the other program, and it delays nothing.
func TestFights(t *testing.T) {
	for _, pause := range []time.Duration{
		20 * time.Millisecond, 100 * time.Millisecond, 400 * time.Millisecond, 2 * time.Second, 20 * time.Second,
		5 * time.Minute, 50 * time.Minute,
	} {
		t.Run(pause.String(), func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.put("g", func(*gizmo) {})
				s.start(Options{}, Controller[gizmo]{
					Reconcile: func(ctx context.Context, g *gizmo) (Action, error) {
						g.Status.Seen = 7
						return Done, s.gizmos.Status().Ensure(ctx, g)
					},
					Failed: func(_ context.Context, _ *gizmo, err error) error { t.Errorf("Failed is told %v", err); return nil },
				})
				const times = 12
				for i := range times {
					s.sleep(pause)
					s.other("g", 100+i)
					for s.sleep(time.Millisecond); s.gizmo("g").Status.Seen != 7; {
						s.sleep(time.Second) // the watch has ended, and begins again
					}
				}
				said := s.log.count("keeps undoing", "object=default/g",
					"Gizmo default/g status.seen, managed by other (Update of status)")
				if want := max(1, min(times-4, int(times*pause/(5*time.Minute)))); said == 0 || said > want {
					t.Errorf("the fight is reported %d times, want up to %d:\n%s", said, want, s.log)
				}
				if n := s.log.count("reconciled in a loop"); n > 0 {
					t.Errorf("the fight is reported as a loop:\n%s", s.log)
				}
			})
		})
	}
}

// These are no fights: edits by hand now and then, another value each time, other fields of
// the object, a restart, and a few edits in a row.
func TestNoFights(t *testing.T) {
	for name, test := range map[string]struct {
		times int
		pause time.Duration
		do    func(s *stage, i int)
	}{
		"five edits in a year":        {5, 2000 * time.Hour, func(s *stage, i int) { s.other("g", 100+i) }},
		"an edit in two hours":        {50, 2 * time.Hour, func(s *stage, i int) { s.other("g", 100+i) }},
		"four edits in a row":         {4, time.Second, func(s *stage, i int) { s.other("g", 100+i) }},
		"the spec changes":            {50, time.Second, func(s *stage, _ int) { s.put("g", func(g *gizmo) { g.Spec.Size++ }) }},
		"another field of the status": {50, time.Second, func(s *stage, i int) { s.put("g", addCondition(i)) }},
		"the object is recreated": {4, time.Second, func(s *stage, i int) {
			s.other("g", i)
			s.sleep(1)
			s.delete("g")
			s.put("g", func(*gizmo) {})
		}},
		"the spec and then the status": {50, time.Second, func(s *stage, i int) {
			s.put("g", func(g *gizmo) { g.Spec.Size++ })
			s.sleep(1)
			s.other("g", 1000+i)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.put("g", func(*gizmo) {})
				s.start(Options{}, Controller[gizmo]{
					Reconcile: func(ctx context.Context, g *gizmo) (Action, error) {
						own := &gizmo{Status: gizmoStatus{Seen: 7 + g.Spec.Size}}
						own.Name = g.Name
						return Done, s.gizmos.Status().Ensure(ctx, own)
					},
				})
				for i := range test.times {
					s.sleep(test.pause)
					test.do(s, i)
				}
				s.sleep(time.Second)
				s.noneHot()
			})
		})
	}
}

func addCondition(i int) func(*gizmo) {
	return func(g *gizmo) {
		g.Status.Conditions = []metav1.Condition{{Type: "Ready", Message: fmt.Sprint(i)}}
	}
}

// A child that is gone each time and is created again, by Create or by Ensure, is reported as
// well, however slowly that goes. It is not if it was gone a few times.
func TestChildThatVanishes(t *testing.T) {
	create := func(ctx context.Context, s *stage, c *gizmo) error { _, err := s.gizmos.Create(ctx, c); return err }
	ensure := func(ctx context.Context, s *stage, c *gizmo) error { _, err := s.gizmos.Ensure(ctx, c); return err }
	for name, test := range map[string]struct {
		make  func(context.Context, *stage, *gizmo) error
		times int
		pause time.Duration
		want  bool
	}{
		"create": {create, 5, 100 * time.Millisecond, true}, "create slowly": {create, 5, 50 * time.Minute, true},
		"ensure": {ensure, 5, 100 * time.Millisecond, true}, "ensure slowly": {ensure, 5, 50 * time.Minute, true},
		"four times": {create, 3, time.Second, false}, "seldom": {ensure, 20, 2 * time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.put("a", func(*gizmo) {})
				s.start(Options{}, Controller[gizmo]{
					Predicate: only("a"), Watches: []Source{Owned(s.gizmos)},
					Reconcile: func(ctx context.Context, g *gizmo) (Action, error) {
						if g.Name != "a" || s.gizmo("child") != nil {
							return Done, nil
						}
						return Done, test.make(ctx, s, child(g, "child"))
					},
				})
				for range test.times {
					s.sleep(test.pause)
					if s.gizmo("child") == nil {
						t.Fatal("the child is not there again")
					}
					s.delete("child")
				}
				s.sleep(time.Second)
				said := s.log.count("keeps undoing", "object=default/a", "Gizmo default/child, created 5 times") == 1
				if said != test.want {
					t.Errorf("reported: %t, want %t:\n%s", said, test.want, s.log)
				}
			})
		})
	}
}

// A reconcile that creates a child and deletes it at its next turn is reported, though a timer
// that is slow enough is no loop.
func TestCreateAndDeleteByTurns(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("a", func(*gizmo) {})
		s.start(Options{}, Controller[gizmo]{
			Predicate: only("a"),
			Reconcile: func(ctx context.Context, g *gizmo) (Action, error) {
				switch {
				case g.Name != "a":
					return Done, nil
				case s.gizmo("child") != nil:
					return After(10 * time.Second), s.gizmos.Delete(ctx, "child")
				}
				_, err := s.gizmos.Create(ctx, child(g, "child"))
				return After(10 * time.Second), err
			},
		})
		s.sleep(10 * time.Minute)
		if n := s.log.count("keeps undoing", "Gizmo default/child, created "); n < 1 || n > 2 {
			t.Errorf("it is reported %d times:\n%s", n, s.log)
		}
	})
}

// Objects of one name and kind in two API groups, or in two clusters, are counted apart.
func TestCreationsAreCountedByKind(t *testing.T) {
	one := written.Write{Server: "one", Group: "one", Kind: "Gizmo", Namespace: "default", Name: "child", Created: true}
	group, server := one, one
	group.Group, server.Server = "other", "other"
	for name, test := range map[string]struct {
		writes []written.Write
		want   int
	}{"one": {[]written.Write{one}, 1}, "groups": {[]written.Write{one, group}, 0}, "servers": {[]written.Write{one, server}, 0}} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.put("a", func(*gizmo) {})
				runs := 0
				s.start(Options{}, Controller[gizmo]{Reconcile: func(ctx context.Context, _ *gizmo) (Action, error) {
					if runs++; runs > 8 {
						return Done, nil
					}
					written.Tell(ctx, test.writes[runs%len(test.writes)])
					return After(time.Second), nil
				}})
				s.sleep(time.Minute)
				if n := s.log.count("keeps undoing", "Gizmo default/child, created 5 times"); n != test.want {
					t.Errorf("%d reports, want %d:\n%s", n, test.want, s.log.tail(3))
				}
			})
		})
	}
}

// Reconciles of many objects that each create children of their own are no fight.
func TestManyCreationsAreFree(t *testing.T) {
	onStage(t, func(s *stage) {
		var mu sync.Mutex
		made := make(map[string]bool)
		for i := range 200 {
			s.put(fmt.Sprint("p-", i), func(*gizmo) {})
		}
		s.start(Options{}, Controller[gizmo]{
			Predicate: func(c kube.Change) bool { return len(c.Key.Name) < 6 },
			Reconcile: func(ctx context.Context, g *gizmo) (Action, error) {
				mu.Lock()
				name := fmt.Sprintf("child-of-%s-%d", g.Name, g.Spec.Size)
				known := made[name]
				made[name] = true
				mu.Unlock()
				if known {
					return Done, nil
				}
				_, err := s.gizmos.Create(ctx, child(g, name))
				return Done, err
			},
		})
		for range 10 {
			for i := range 200 {
				s.put(fmt.Sprint("p-", i), func(g *gizmo) { g.Spec.Size++ })
			}
			s.sleep(time.Second)
		}
		s.noneHot()
	})
}
