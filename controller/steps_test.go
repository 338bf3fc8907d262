package controller

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube"
)

// A source is held up. An object comes to refer to another one and leaves it, and a
// reconcile has seen that in between. The other object is reconciled again.
func TestStatesThatAReconcileSawAreMapped(t *testing.T) {
	refers := func(_ context.Context, g *gizmo) []kube.Key {
		if g.Spec.Size != 7 {
			return nil
		}
		return []kube.Key{{Namespace: "default", Name: "a"}}
	}
	sources := map[string]func(*stage, Predicate) Source{
		"mapped":         func(s *stage, p Predicate) Source { return Mapped(s.gizmos, refers, p) },
		"fields changed": func(s *stage, p Predicate) Source { return Mapped(s.gizmos, refers, p, FieldsChanged("spec")) },
		"owned":          func(s *stage, p Predicate) Source { return Owned(s.gizmos, p) },
		"referenced": func(s *stage, p Predicate) Source {
			user := func(g *gizmo) []kube.Key {
				if g.Name != "a" {
					return nil
				}
				return []kube.Key{{Namespace: "default", Name: "user"}}
			}
			return Referenced(s.gizmos, user, p, FieldsChanged("spec"))
		},
	}
	for name, source := range sources {
		for _, known := range []bool{true, false} {
			for _, hot := range []int{0, 5000} {
				t.Run(fmt.Sprint(name, ", known before: ", known, ", other changes: ", hot), func(t *testing.T) {
					onStage(t, func(s *stage) { s.seesAState(known, hot, func(p Predicate) Source { return source(s, p) }) })
				})
			}
		}
	}
}

func (s *stage) seesAState(known bool, hot int, source func(Predicate) Source) {
	plain := func(g *gizmo) { g.Spec.Size, g.OwnerReferences = 1, nil }
	s.put("a", plain)
	s.put("busy", plain)
	if known {
		s.put("user", plain)
	}
	used, open := false, make(chan struct{})
	s.start(Options{}, Controller[gizmo]{
		Predicate: func(c kube.Change) bool { return c.Key.Name == "a" },
		Watches: []Source{source(func(c kube.Change) bool {
			if c.Key.Name == "busy" && c.Type == kube.Modified {
				<-open
			}
			return c.Key.Name == "user"
		})},
		Reconcile: func(ctx context.Context, g *gizmo) (Action, error) {
			user, err := s.gizmos.In("default").Cached().Get(ctx, "user")
			if err != nil && !apierrors.IsNotFound(err) {
				return Done, err
			}
			if g.Name == "a" {
				used = err == nil && user.Spec.Size == 7
			}
			return Done, nil
		},
	})
	s.put("busy", func(g *gizmo) { g.Spec.Size = 2 })
	synctest.Wait()
	s.put("user", func(g *gizmo) {
		g.Spec.Size = 7
		g.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Gizmo", Name: "a", UID: "uid-10"}}
	})
	synctest.Wait()
	s.put("a", func(g *gizmo) { g.Status.Seen++ })
	synctest.Wait()
	if !used {
		s.Fatal("the reconcile has not seen the user")
	}
	if known {
		s.put("user", plain)
	} else {
		s.delete("user")
	}
	for i := range hot {
		s.put("hot", func(g *gizmo) { g.Status.Seen = i })
	}
	synctest.Wait()
	close(open)
	synctest.Wait()
	if used {
		s.Error("the object waits for its user for ever")
	}
	if n := s.log.count("all objects are reconciled"); (n > 0) != (hot > 0) {
		s.Errorf("it is logged %d times that states were left out", n)
	}
}

// The controller's own predicate is held up. A reconcile sees an object's spec while it
// is another one for a while. It sees the present spec later.
func TestASpecThatAReconcileSawForAWhile(t *testing.T) {
	onStage(t, func(s *stage) {
		size := func(n int) func(*gizmo) { return func(g *gizmo) { g.Spec.Size = n } }
		s.put("a", size(1))
		s.put("busy", size(1))
		seen, open, ask := 0, make(chan struct{}), make(chan kube.Key)
		fields := FieldsChanged("spec")
		s.start(Options{}, Controller[gizmo]{
			Predicate: func(c kube.Change) bool {
				if c.Key.Name == "busy" && c.Type == kube.Modified {
					<-open
				}
				return fields(c)
			},
			Watches: []Source{Channel("asked", ask)},
			Reconcile: func(_ context.Context, g *gizmo) (Action, error) {
				if g.Name == "a" {
					seen = g.Spec.Size
				}
				return Done, nil
			},
		})
		s.put("busy", size(2))
		synctest.Wait()
		s.put("a", size(2))
		synctest.Wait()
		ask <- kube.Key{Namespace: "default", Name: "a"}
		synctest.Wait()
		if seen != 2 {
			t.Fatalf("the reconcile has seen the size %d", seen)
		}
		s.put("a", size(1))
		synctest.Wait()
		close(open)
		synctest.Wait()
		if seen != 1 {
			t.Errorf("the last reconcile has seen the size %d", seen)
		}
	})
}

// A source is again and again so far behind that states are left out. That costs each
// object one reconcile a minute, and the last states that are left out cost one too.
func TestSourceThatIsAlwaysBehind(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("a", func(*gizmo) {})
		s.put("busy", func(*gizmo) {})
		s.start(Options{}, Controller[gizmo]{
			Watches: []Source{Owned(s.gizmos, func(c kube.Change) bool {
				if c.Key.Name == "busy" && c.Type == kube.Modified {
					time.Sleep(9 * time.Second)
				}
				return false
			})},
			Reconcile: func(context.Context, *gizmo) (Action, error) { return Done, nil },
		})
		s.sleep(time.Hour)
		const times = 8
		for i := range times {
			s.put("busy", func(g *gizmo) { g.Spec.Size = i + 1 })
			synctest.Wait()
			for j := range 1030 {
				s.put("hot", func(g *gizmo) { g.Spec.Size, g.Status.Seen = i, j })
				synctest.Wait() // each change is an update of the store
			}
			s.sleep(10 * time.Second)
		}
		before := len(s.ran("a"))
		if before != 3 {
			s.Errorf("within %d0 s the object is reconciled %d times", times, before-1)
		}
		if n := s.log.count("all objects are reconciled"); n != before {
			s.Errorf("it is logged %d times that states were left out", n)
		}
		s.sleep(time.Minute)
		if n := len(s.ran("a")) - before; n != 1 {
			s.Errorf("after the last states that were left out the object is reconciled %d times", n)
		}
	})
}
