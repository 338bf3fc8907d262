package controller

import (
	"context"
	"runtime"
	"testing"
	"time"

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
