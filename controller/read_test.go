package controller

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pintle-go/pintle/kube"
)

// A source asks for an object whose change is in the store and has not reached the queue yet.
// The change causes no reconcile after the one that has read it. A later change does.
func TestStateThatWasReadCausesNoReconcile(t *testing.T) {
	for name, later := range map[string]bool{"nothing follows": false, "another change follows": true} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				size := func(n int) func(*gizmo) { return func(g *gizmo) { g.Spec.Size = n } }
				s.put("a", size(1))
				open, keys := make(chan struct{}), make(chan kube.Key)
				var sizes []int
				s.start(Options{}, Controller[gizmo]{
					Reconcile: func(_ context.Context, g *gizmo) (Action, error) {
						sizes = append(sizes, g.Spec.Size)
						if len(sizes) == 2 {
							close(open)
							time.Sleep(time.Second) // the change reaches the queue
							if later {
								s.put("a", size(3))
								time.Sleep(time.Second)
							}
						}
						return Done, nil
					},
					Predicate: func(c kube.Change) bool {
						if _, g, err := kube.Decode[gizmo](c); err == nil && g.Spec.Size == 2 {
							<-open
						}
						return true
					},
					Watches: []Source{Channel("keys", keys)},
				})
				s.put("a", size(2))
				synctest.Wait()
				keys <- kube.Key{Namespace: "default", Name: "a"}
				time.Sleep(time.Minute)
				synctest.Wait()
				want := 2
				if later {
					want = 3
				}
				if len(sizes) != want || sizes[len(sizes)-1] != want {
					t.Errorf("the reconciles have read %v", sizes)
				}
			})
		})
	}
}

// A source has a store of its own, which may be behind the store of the controller's objects.
// A change in the source's store causes a reconcile although the reconcile before it has read
// the same version of the object: it has read the source's store as well.
func TestStateThatWasReadInAnotherStore(t *testing.T) {
	onStage(t, func(s *stage) {
		size := func(n int) func(*gizmo) { return func(g *gizmo) { g.Spec.Size = n } }
		s.put("a", func(g *gizmo) { g.Labels = map[string]string{"large": "yes"}; size(1)(g) })
		large := s.gizmos.Labeled("large=yes")
		open := make(chan struct{})
		s.arrive = func(r *http.Request) {
			if q := r.URL.Query(); q.Get("watch") == "true" && q.Get("labelSelector") != "" {
				<-open
			}
		}
		var seen []int
		s.start(Options{}, Controller[gizmo]{
			Reconcile: func(ctx context.Context, g *gizmo) (Action, error) {
				is, err := large.In(g.Namespace).Cached().Get(ctx, g.Name)
				if err != nil {
					return Done, err
				}
				seen = append(seen, is.Spec.Size)
				if is.Spec.Size != g.Spec.Size {
					close(open)
					time.Sleep(time.Second) // the change gets into the other store, and then into the queue
				}
				return Done, nil
			},
			Watches: []Source{Mapped(large, func(_ context.Context, g *gizmo) []kube.Key { return []kube.Key{kube.KeyOf(g)} })},
		})
		s.put("a", size(2))
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(seen) < 2 || seen[len(seen)-1] != 2 {
			t.Errorf("the reconciles have read %v in the source's store", seen)
		}
	})
}

// A reconcile has failed, and a server that lags says that there is no such object. The change
// of the object, which came in the meantime, still causes a reconcile.
func TestStateThatAFailedReconcileHasRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newPlayed()
		l := &lagging{played: server}
		l.behind.Store(true)
		s := newStage(t, server, l)
		size := func(n int) func(*gizmo) { return func(g *gizmo) { g.Spec.Size = n } }
		s.put("a", size(1))
		open, keys := make(chan struct{}), make(chan kube.Key)
		var done []int
		failed := false
		s.start(Options{}, Controller[gizmo]{
			Reconcile: func(_ context.Context, g *gizmo) (Action, error) {
				if g.Spec.Size == 2 && !failed {
					failed = true
					close(open)
					time.Sleep(time.Second) // the change reaches the queue
					return Done, apierrors.NewConflict(schema.GroupResource{Resource: "parts"}, "b", errors.New("another version"))
				}
				done = append(done, g.Spec.Size)
				return Done, nil
			},
			Predicate: func(c kube.Change) bool {
				if _, g, err := kube.Decode[gizmo](c); err == nil && g.Spec.Size == 2 {
					<-open
				}
				return true
			},
			Watches: []Source{Channel("keys", keys)},
		})
		s.put("a", size(2))
		synctest.Wait()
		keys <- kube.Key{Namespace: "default", Name: "a"}
		time.Sleep(time.Minute)
		synctest.Wait()
		if !failed || !slices.Equal(done, []int{1, 2}) {
			t.Errorf("a reconcile failed: %t, and others have read %v", failed, done)
		}
	})
}
