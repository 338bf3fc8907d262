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
				refer := kube.IndexBy(s.gizmos, func(g *gizmo) []kube.Key {
					if g.Name != "refers" {
						return nil
					}
					return []kube.Key{{Namespace: "default", Name: "to"}, {Namespace: "default", Name: "next"}}
				})
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

// A program with several controllers may take the index of another one. The keys of its
// objects would be reconciled as if they were the controller's.
func TestReferencedByAnIndexOfAnotherKind(t *testing.T) {
	onStage(t, func(s *stage) {
		secrets := kube.For[corev1.Secret](s.gizmos.Client())
		c := Controller[gizmo]{
			For:       s.gizmos,
			Watches:   []Source{Referenced(s.gizmos, kube.IndexBy(secrets, func(*corev1.Secret) []kube.Key { return nil }))},
			Reconcile: func(context.Context, *gizmo) (Action, error) { return Done, nil },
		}
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		err := Run(ended, Options{}, c)
		const want = `configure controller "gizmo": Referenced has an index of v1.Secret, and needs one of the controller's own type controller.gizmo`
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	})
}
