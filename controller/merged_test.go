package controller

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/pintle-go/pintle/kube"
)

// A predicate and a source are held up at one object. They then see the change of another
// object from the state that they last saw, however often it has changed meanwhile.
func TestChangesThatAreMergedLoseNothing(t *testing.T) {
	onStage(t, func(s *stage) {
		size := func(n int) func(*gizmo) { return func(g *gizmo) { g.Spec.Size = n } }
		for _, name := range []string{"busy", "mapped", "spec"} {
			s.put(name, size(1))
		}
		var mu sync.Mutex
		var asked []string
		open := make(chan struct{})
		stand := func(name string, size int) {
			if name == "busy" && size == 2 {
				<-open
			}
		}
		s.start(Options{}, Controller[gizmo]{
			Reconcile: func(context.Context, *gizmo) (Action, error) { return Done, nil },
			Predicate: func(c kube.Change) bool {
				if _, g, err := kube.Decode[gizmo](c); err == nil {
					stand(c.Key.Name, g.Spec.Size)
				}
				return c.NewGeneration()
			},
			Watches: []Source{Mapped(s.gizmos, func(_ context.Context, g *gizmo) []kube.Key {
				stand(g.Name, g.Spec.Size)
				mu.Lock()
				defer mu.Unlock()
				asked = append(asked, fmt.Sprint(g.Name, " ", g.Spec.Size))
				return nil
			})},
		})
		if n := len(s.ran("spec")); n != 1 {
			t.Fatalf("%d reconciles at first", n)
		}
		mu.Lock()
		asked = nil
		mu.Unlock()
		s.put("busy", size(2))
		synctest.Wait()
		s.put("spec", size(2))
		synctest.Wait()
		s.put("spec", func(g *gizmo) { g.Status.Seen = 7 }) // as another controller writes it
		s.put("mapped", size(2))
		synctest.Wait()
		s.delete("mapped")
		synctest.Wait()
		close(open)
		synctest.Wait()
		runs := s.ran("spec")
		if len(runs) != 2 {
			t.Fatalf("a change of the spec that a change of the status followed led to %d reconciles", len(runs)-1)
		}
		if fields, err := runs[1].causes[0].Change.Fields(); err != nil || !slices.Contains(fields, "spec.size") {
			t.Errorf("the cause says that %q changed, %v", fields, err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, want := range []string{"mapped 1", "mapped 2"} {
			if !slices.Contains(asked, want) {
				t.Errorf("the source was not asked about %s: %q", want, asked)
			}
		}
	})
}
