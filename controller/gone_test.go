package controller

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pintle-go/pintle/kube"
)

// picky is a gizmo whose size must not be 13.
type picky struct {
	kube.Object
	Spec struct {
		Size lucky `json:"size"`
	} `json:"spec"`
}

func (picky) GVK() kube.GVK { return gizmo{}.GVK() }

type lucky int

func (l *lucky) UnmarshalJSON(text []byte) error {
	if string(text) == "13" {
		return errors.New("bad luck")
	}
	return json.Unmarshal(text, (*int)(l))
}

// If Gone fails for good for an object that is gone, a new object of its name is still
// reconciled.
func TestNewObjectAfterGoneThatFailsForGood(t *testing.T) {
	for name, test := range map[string]struct {
		size int
		gone error
	}{
		"terminal":        {1, Terminal(errors.New("never"))},
		"does not decode": {13, nil},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.put("g", func(g *gizmo) { g.Spec.Size = test.size })
				pickies := kube.For[picky](s.gizmos.Client(), kube.Kind{
					GVK: gizmo{}.GVK(), Plural: "gizmos", Scope: kube.Namespaced,
				}).In("default")
				var runs, told atomic.Int32
				s.run(Options{}, Controller[picky]{
					For:       pickies,
					Reconcile: func(context.Context, *picky) (Action, error) { runs.Add(1); return Done, nil },
					Gone:      func(context.Context, *picky) error { told.Add(1); return test.gone },
				})
				s.sleep(time.Second)
				before := runs.Load()
				s.delete("g")
				s.sleep(time.Second)
				s.put("g", func(g *gizmo) { g.Spec.Size = 2 })
				s.sleep(time.Hour)
				if runs.Load() != before+1 || told.Load() > 1 {
					t.Errorf("%d reconciles of the new object, Gone was called %d times:\n%s", runs.Load()-before, told.Load(), s.log)
				}
			})
		})
	}
}

// If Gone fails again and again, a new object of the name is reconciled all the same after
// some tries. Without a new object, Gone is called until it succeeds.
func TestNewObjectAfterGoneThatFailsAgainAndAgain(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("g", func(*gizmo) {})
		var sizes []int
		var told atomic.Int64
		var succeeds atomic.Bool
		s.run(Options{}, Controller[gizmo]{
			For: s.gizmos,
			Reconcile: func(_ context.Context, g *gizmo) (Action, error) {
				sizes = append(sizes, g.Spec.Size)
				return Done, nil
			},
			Gone: func(context.Context, *gizmo) error {
				told.Add(1)
				if succeeds.Load() {
					return nil
				}
				return errors.New("not today")
			},
		})
		s.delete("g")
		s.sleep(time.Hour)
		if told.Load() <= goneTries {
			t.Errorf("without a new object Gone was called %d times in an hour", told.Load())
		}
		s.put("g", func(g *gizmo) { g.Spec.Size = 2 })
		s.sleep(time.Hour)
		if want := []int{0, 2}; !slices.Equal(sizes, want) {
			t.Errorf("reconciled sizes: %v, want %v", sizes, want)
		}
		before := told.Load()
		s.put("g", func(g *gizmo) { g.Spec.Size = 3 })
		s.delete("g")
		s.sleep(time.Second)
		succeeds.Store(true)
		s.sleep(time.Hour)
		if told.Load() == before {
			t.Error("Gone was not called for the second object")
		}
	})
}

// A new object is reconciled although Gone panics, or ends its goroutine, each time.
func TestNewObjectAfterGoneThatBreaks(t *testing.T) {
	for name, breaks := range map[string]func(){
		"panic": func() { panic("not today") }, "Goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.put("g", func(*gizmo) {})
				var sizes []int
				s.run(Options{}, Controller[gizmo]{
					For: s.gizmos,
					Reconcile: func(_ context.Context, g *gizmo) (Action, error) {
						sizes = append(sizes, g.Spec.Size)
						return Done, nil
					},
					Gone: func(context.Context, *gizmo) error {
						breaks()
						return nil
					},
				})
				s.delete("g")
				s.put("g", func(g *gizmo) { g.Spec.Size = 2 })
				s.sleep(time.Hour)
				if want := []int{0, 2}; !slices.Equal(sizes, want) {
					t.Errorf("reconciled sizes: %v, want %v", sizes, want)
				}
			})
		})
	}
}

// An object is deleted and recreated so often that Gone never fails five times in between.
// The new objects are reconciled all the same, and the old ones are not kept for ever.
func TestObjectsThatComeAndGoWhileGoneFails(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("g", func(*gizmo) {})
		reconciled, told := 0, 0
		s.run(Options{}, Controller[gizmo]{
			For: s.gizmos,
			Reconcile: func(_ context.Context, g *gizmo) (Action, error) {
				reconciled++
				return Done, nil
			},
			Gone: func(context.Context, *gizmo) error {
				told++
				return errors.New("not today")
			},
		})
		const times = 100
		for range times {
			s.delete("g")
			s.sleep(20 * time.Millisecond)
			s.put("g", func(*gizmo) {})
			s.sleep(200 * time.Millisecond)
		}
		if reconciled < times/5 {
			t.Errorf("%d of %d objects were reconciled, and Gone was called %d times", reconciled, times, told)
		}
	})
}

// An object comes and goes while the loop over the objects is held up. A reconcile has
// seen it. Gone is called for it.
func TestGoneOfAnObjectThatOnlyAReconcileSaw(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("busy", func(*gizmo) {})
		open, ask := make(chan struct{}), make(chan kube.Key)
		var gone []string
		s.start(Options{}, Controller[gizmo]{
			Watches: []Source{Channel("asked", ask)},
			Priority: func(c Cause) Priority {
				if c.Change.Key.Name == "busy" && c.Change.Type == kube.Modified {
					<-open
				}
				return Default
			},
			Reconcile: func(context.Context, *gizmo) (Action, error) { return Done, nil },
			Gone:      func(_ context.Context, g *gizmo) error { gone = append(gone, g.Name); return nil },
		})
		synctest.Wait()
		s.put("busy", func(g *gizmo) { g.Spec.Size = 1 })
		synctest.Wait()
		s.put("g", func(*gizmo) {})
		synctest.Wait()
		ask <- named("g")
		synctest.Wait()
		if len(s.ran("g")) != 1 {
			t.Fatalf("the object was reconciled %d times", len(s.ran("g")))
		}
		s.delete("g")
		synctest.Wait()
		close(open)
		synctest.Wait()
		if !slices.Equal(gone, []string{"g"}) {
			t.Errorf("Gone was called for %q", gone)
		}
	})
}
