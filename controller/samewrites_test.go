package controller

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/internal/written"
	"github.com/pintle-go/pintle/kube"
)

// Two objects of servers with storages of their own have the same resourceVersion. The
// change of the one is not the write of the other.
func TestWriteOfAnotherObjectWithTheSameVersion(t *testing.T) {
	w := new(writes)
	w.note(written.Write{UID: "mine", ResourceVersion: "7"})
	w.note(written.Write{UID: "nobody's"})
	if !w.include("7", "mine", false) {
		t.Error("the write is not recognized")
	}
	if w.include("7", "other", false) || w.include("", "nobody's", false) {
		t.Error("a change of another object counts as the write")
	}
}

// Somebody else changes an object while a reconcile that has read it writes it too. The
// two changes wait together. The reconcile comes again at once, because it has not seen the
// first one: not even a failure delays it.
func TestOwnWriteAfterAChangeBySomebodyElse(t *testing.T) {
	for _, failure := range []error{nil, errBroken} {
		t.Run(fmt.Sprint(failure), func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.put("a", func(*gizmo) {})
				s.put("child", func(g *gizmo) {
					owner := metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Gizmo", Name: "a", UID: "uid-10"}
					g.OwnerReferences = []metav1.OwnerReference{owner}
				})
				seen := 0
				s.start(Options{}, Controller[gizmo]{
					Backoff:   Backoff{Min: time.Minute},
					Predicate: func(c kube.Change) bool { return c.Key.Name == "a" },
					Watches:   []Source{Owned(s.gizmos)},
					Reconcile: func(ctx context.Context, g *gizmo) (Action, error) {
						if g.Name != "a" {
							return Done, nil
						}
						child, err := s.gizmos.In(g.Namespace).Cached().Get(ctx, "child")
						if err != nil {
							return Done, err
						}
						seen = child.Status.Seen
						if g.Spec.Size == 0 || len(child.Status.Conditions) > 0 {
							return Done, nil
						}
						s.put("child", func(g *gizmo) { g.Status.Seen = 7 })
						time.Sleep(time.Millisecond)
						s.put("child", func(g *gizmo) { g.Status.Conditions = []metav1.Condition{{Type: "Ready"}} })
						child = s.gizmo("child")
						written.Tell(ctx, written.Write{UID: child.UID, ResourceVersion: child.ResourceVersion})
						time.Sleep(time.Millisecond)
						return Done, failure
					},
				})
				s.sleep(time.Hour)
				s.put("a", func(g *gizmo) { g.Spec.Size = 1 })
				s.sleep(time.Second)
				if seen != 7 {
					s.Errorf("the last reconcile has seen %d", seen)
				}
			})
		})
	}
}

// A reconcile writes its child many times, each time something new, and fails. Its own writes
// do not cause its retry before the time, however many of them wait together. One by somebody
// else among them does.
func TestManyOwnWrites(t *testing.T) {
	for _, foreign := range []bool{false, true} {
		t.Run(fmt.Sprint(foreign), func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.put("a", func(*gizmo) {})
				s.put("child", func(g *gizmo) {
					owner := metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Gizmo", Name: "a", UID: "uid-10"}
					g.OwnerReferences = []metav1.OwnerReference{owner}
				})
				runs, seen := 0, 0
				s.start(Options{}, Controller[gizmo]{
					Backoff:   Backoff{Min: time.Hour, Max: time.Hour},
					Predicate: func(c kube.Change) bool { return c.Key.Name == "a" },
					Watches:   []Source{Owned(s.gizmos)},
					Reconcile: func(ctx context.Context, g *gizmo) (Action, error) {
						if g.Name != "a" || g.Spec.Size == 0 {
							return Done, nil
						}
						runs++
						for i := range 100 {
							seen++
							s.put("child", func(g *gizmo) { g.Status.Seen = seen })
							if foreign && runs == 1 && i == 50 {
								continue
							}
							child := s.gizmo("child")
							written.Tell(ctx, written.Write{UID: child.UID, ResourceVersion: child.ResourceVersion})
							time.Sleep(time.Millisecond)
						}
						return Done, errBroken
					},
				})
				s.sleep(time.Hour)
				s.put("a", func(g *gizmo) { g.Spec.Size = 1 })
				s.sleep(time.Minute)
				if want := map[bool]int{false: 1, true: 2}[foreign]; runs != want {
					s.Errorf("there are %d reconciles, want %d", runs, want)
				}
			})
		})
	}
}
