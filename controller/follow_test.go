package controller

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/pintle-go/pintle/kube"
)

// If a source cannot look its objects up for a while, it reports the change when it can:
// nothing else does.
func TestReferencesAreAskedForAgain(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("g", func(*gizmo) {})
		asked := 0
		s.start(Options{}, Controller[gizmo]{
			Predicate: func(c kube.Change) bool { return c.Type != kube.Modified },
			Watches: []Source{{objects: s.gizmos, persists: true, keys: func(
				_ context.Context, c kube.Change, _ kube.GVK, _ bool,
			) ([]kube.Key, error) {
				if asked++; asked%3 > 0 {
					return nil, errBroken
				}
				return []kube.Key{c.Key}, nil
			}}},
			Reconcile: func(context.Context, *gizmo) (Action, error) { return Done, nil },
		})
		s.sleep(10 * time.Second)
		before := len(s.ran("g"))
		s.put("g", func(g *gizmo) { g.Spec.Size = 1 })
		s.sleep(10 * time.Second)
		if n := len(s.ran("g")) - before; n != 1 || asked != 6 {
			t.Errorf("%d reconciles after a change that was told at the third try; asked %d times for two changes", n, asked)
		}
		if n := s.log.count("cannot find the objects that a change concerns", "broken"); n != 2 {
			t.Errorf("%d lines are logged for two changes:\n%s", n, s.log)
		}
	})
}

// An object is reconciled when another object that it refers to changes, comes or goes.
func TestReferenced(t *testing.T) {
	onStage(t, func(s *stage) {
		referred := kube.Key{Namespace: "default", Name: "referred"}
		refer := func(g *gizmo) []kube.Key {
			if g.Spec.Size == 0 {
				return nil
			}
			return []kube.Key{referred}
		}
		for _, name := range []string{"a", "b", "other"} {
			s.put(name, func(g *gizmo) {
				if name != "other" {
					g.Spec.Size = 1
				}
			})
		}
		s.start(Options{}, Controller[gizmo]{
			Predicate: func(c kube.Change) bool { return c.Key != referred },
			Watches:   []Source{Referenced(s.gizmos, refer)},
			Reconcile: func(context.Context, *gizmo) (Action, error) { return Done, nil },
		})
		expect := func(what string, want ...string) {
			t.Helper()
			s.mu.Lock()
			s.runs = nil
			s.mu.Unlock()
			switch what {
			case "added":
				s.put(referred.Name, func(*gizmo) {})
			case "modified":
				s.put(referred.Name, func(g *gizmo) { g.Status.Seen++ })
			case "deleted":
				s.delete(referred.Name)
			}
			s.sleep(time.Second)
			var names []string
			for _, r := range s.ran("") {
				names = append(names, r.name)
				if len(r.causes) != 1 || r.causes[0].String() != "Gizmo default/referred "+what {
					t.Errorf("%s is reconciled because of %v", r.name, r.causes)
				}
			}
			if slices.Sort(names); !slices.Equal(names, want) {
				t.Errorf("when it is %s, %q are reconciled, want %q", what, names, want)
			}
		}
		s.sleep(time.Second)
		expect("added", "a", "b")
		expect("modified", "a", "b")
		s.put("b", func(g *gizmo) { g.Spec.Size = 0 })
		s.put("other", func(g *gizmo) { g.Spec.Size = 1 })
		s.sleep(time.Second)
		expect("modified", "a", "other")
		expect("deleted", "a", "other")
	})
}
