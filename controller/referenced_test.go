package controller

import (
	"context"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/kube"
)

// A predicate that fails lets a change pass, also to the objects that refer to the changed
// one.
func TestReferencedWithAPredicateThatFails(t *testing.T) {
	for name, fail := range map[string]func(){"panic": func() { panic("broken") }, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.put("refers", func(*gizmo) {})
				refer := func(g *gizmo) []kube.Key {
					if g.Name != "refers" {
						return nil
					}
					return []kube.Key{{Namespace: "default", Name: "to"}, {Namespace: "default", Name: "next"}}
				}
				predicate := func(c kube.Change) bool {
					if c.Key.Name == "to" {
						fail()
					}
					return true
				}
				s.start(Options{}, Controller[gizmo]{
					Predicate: func(c kube.Change) bool { return c.Key.Name == "refers" },
					Watches:   []Source{Referenced(s.gizmos, refer, predicate)},
					Reconcile: func(context.Context, *gizmo) (Action, error) { return Done, nil },
				})
				s.sleep(time.Minute)
				was := len(s.ran("refers"))
				s.put("to", func(*gizmo) {})
				s.sleep(time.Minute)
				if n := len(s.ran("refers")) - was; n != 1 {
					t.Errorf("the referring object was reconciled %d times, want 1", n)
				}
				s.put("next", func(*gizmo) {})
				s.sleep(time.Minute)
				if n := len(s.ran("refers")) - was; n != 2 {
					t.Errorf("after the next change it was reconciled %d times, want 2", n)
				}
			})
		})
	}
}

// The function of Referenced is of the controller's own type. The keys of other objects
// would be reconciled as if they were the controller's.
func TestReferencedOfAnotherKind(t *testing.T) {
	onStage(t, func(s *stage) {
		c := Controller[gizmo]{
			For:       s.gizmos,
			Watches:   []Source{Referenced(s.gizmos, func(*corev1.Secret) []kube.Key { return nil })},
			Reconcile: func(context.Context, *gizmo) (Action, error) { return Done, nil },
		}
		const want = `configure controller "gizmo": Referenced has a function of v1.Secret, ` +
			`and needs one of the controller's own type`
		if err := refused(t, Options{}, c); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	})
}

// However For is narrowed, an object that refers to a changed one is reconciled, in each Run
// of the controller.
func TestReferencedByObjectsOfANarrowedHandle(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("refers", func(g *gizmo) { g.Labels = map[string]string{"app": "web"} })
		s.put("to", func(*gizmo) {})
		all := kube.For[gizmo](s.gizmos.Client())
		for name, narrowed := range map[string]kube.Handle[gizmo]{
			"nothing": all, "namespace": all.In("default"), "labels": all.In("default").Labeled("app=web"),
			"labels only": all.Labeled("app"), "only read": all.Labeled("app").ReadOnly(),
		} {
			runs := 0
			c := Controller[gizmo]{
				For:       narrowed,
				Predicate: func(c kube.Change) bool { return c.Key.Name == "refers" },
				Watches: []Source{Referenced(s.gizmos, func(g *gizmo) []kube.Key {
					if g.Name != "refers" {
						return nil
					}
					return []kube.Key{named("to")}
				})},
				Reconcile: func(_ context.Context, g *gizmo) (Action, error) {
					if g.Name == "refers" {
						runs++
					}
					return Done, nil
				},
			}
			for range 2 {
				stop := s.run(Options{}, c)
				s.sleep(time.Minute)
				was := runs
				s.put("to", func(g *gizmo) { g.Spec.Size++ })
				s.sleep(time.Minute)
				if n := runs - was; n != 1 {
					t.Errorf("For is narrowed by %s: %d reconciles of the referring object, want 1", name, n)
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
			}
		}
	})
}
