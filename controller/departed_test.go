package controller

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pintle-go/pintle/event"
)

// watched has the label by which the controllers of these tests select.
func watched(g *gizmo) { g.Labels = map[string]string{"watched": "yes"} }

func unwatched(g *gizmo) { g.Labels = nil }

// names are the names of objects that were cleaned up.
type names struct {
	mu  sync.Mutex
	all []string
}

func (n *names) add(name string) (times int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, name)
	return len(n.all)
}

func (n *names) get() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.all)
}

// cleaner is a controller of the watched gizmos. It notes the names of those that it cleans
// up.
func (s *stage) cleaner(cleaned *names, failures int) Controller[gizmo] {
	return Controller[gizmo]{
		For:     s.gizmos.Labeled("watched=yes"),
		Backoff: Backoff{Min: time.Minute, Max: time.Minute},
		Reconcile: func(_ context.Context, g *gizmo) (Action, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.runs = append(s.runs, ran{name: g.Name})
			return Done, nil
		},
		Cleanup: func(ctx context.Context, g *gizmo) (Action, error) {
			if cleaned.add(g.Name) <= failures {
				g.Status.Seen++
				if err := s.gizmos.Status().Apply(ctx, g); err != nil { // its own write
					return Done, err
				}
				return Done, errBroken
			}
			return Done, nil
		},
	}
}

// An object that has left the selection of its controller keeps its finalizer, is not
// reconciled, and is cleaned up when it is deleted.
func TestDeletionOutsideTheSelection(t *testing.T) {
	for name, test := range map[string]struct {
		// steps happen while the program runs, unless stopped is true.
		steps    func(s *stage)
		stopped  bool
		failures int
		cleanups int
	}{
		"left, then deleted": {
			steps: func(s *stage) { s.put("a", unwatched); s.sleep(time.Hour); s.erase("a") }, cleanups: 1,
		},
		"at once": {
			steps: func(s *stage) { s.put("a", unwatched); s.erase("a") }, cleanups: 1,
		},
		"deleted, then left": {
			steps:    func(s *stage) { s.erase("a"); s.sleep(30 * time.Second); s.put("a", unwatched) },
			failures: 1, cleanups: 2,
		},
		"left while the program did not run": {
			steps: func(s *stage) { s.put("a", unwatched); s.erase("a") }, stopped: true, cleanups: 1,
		},
		"with failures": {
			steps: func(s *stage) { s.put("a", unwatched); s.erase("a") }, failures: 5, cleanups: 6,
		},
		"left and back": {
			steps:    func(s *stage) { s.put("a", unwatched); s.sleep(time.Second); s.put("a", watched); s.erase("a") },
			cleanups: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.put("a", watched)
				s.put("foreign", func(g *gizmo) { g.Finalizers = []string{"example.com/other"} })
				var cleaned names
				stop := s.run(Options{}, s.cleaner(&cleaned, test.failures))
				s.sleep(time.Minute)
				if g := s.gizmo("a"); !slices.Equal(g.Finalizers, []string{"example.com/gizmo"}) {
					t.Fatalf("the finalizers are %q", g.Finalizers)
				}
				if test.stopped {
					if err := stop(); err != nil {
						t.Error(err)
					}
				}
				reconciled := len(s.ran("a"))
				test.steps(s)
				s.erase("foreign")
				if test.stopped {
					s.run(Options{}, s.cleaner(&cleaned, test.failures))
				}
				s.sleep(2 * time.Second)
				if n := len(cleaned.get()); n > 2 {
					t.Errorf("a cleanup that fails is called %d times within two seconds", n)
				}
				s.sleep(time.Hour)
				if g := s.gizmo("a"); g != nil {
					t.Errorf("the deletion hangs at the finalizers %q", g.Finalizers)
				}
				if all := cleaned.get(); len(all) != test.cleanups || slices.Contains(all, "foreign") {
					t.Errorf("%q were cleaned up, want %d times a", all, test.cleanups)
				}
				if n := len(s.ran("a")) - reconciled; n > 0 && name != "left and back" {
					t.Errorf("it was reconciled %d times outside the selection", n)
				}
				if s.gizmo("foreign") == nil || len(s.ran("foreign")) > 0 {
					t.Error("a foreign object was touched")
				}
			})
		})
	}
}

// A controller that has no cleanup any more releases also the objects outside its selection.
func TestFormerFinalizersOutsideTheSelection(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("a", func(g *gizmo) { g.Finalizers = []string{"example.com/old"} })
		c := s.cleaner(nil, 0)
		c.Cleanup, c.FormerFinalizers = nil, []string{"example.com/old"}
		s.run(Options{}, c)
		s.sleep(time.Minute)
		s.erase("a")
		s.sleep(time.Minute)
		if g := s.gizmo("a"); g != nil {
			t.Errorf("the deletion hangs at the finalizers %q", g.Finalizers)
		}
	})
}

// An object that waits for nothing costs no request when it leaves the selection, or is gone.
func TestLeavingCostsNothing(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("a", watched)
		var cleaned names
		s.run(Options{}, s.cleaner(&cleaned, 0))
		s.sleep(time.Minute)
		before := s.count("GET " + playedPath)
		s.put("a", unwatched)
		s.sleep(time.Minute)
		s.put("a", watched)
		s.sleep(time.Minute)
		s.erase("a")
		s.sleep(time.Minute)
		if n := s.count("GET "+playedPath) - before; n > 0 || s.gizmo("a") != nil {
			t.Errorf("%d requests: %q", n, s.requests)
		}
	})
}

// An object that does not decode is told about as any other failure, and so is the deletion
// that waits for it.
func TestUnreadableObjectIsReported(t *testing.T) {
	for _, departed := range []bool{false, true} {
		onStage(t, func(s *stage) {
			s.put("a", watched)
			var cleaned names
			events := &event.Recorder{Controller: "example.com/test", Logger: slog.New(slog.DiscardHandler)}
			c := s.cleaner(&cleaned, 0)
			c.Failed = func(context.Context, *gizmo, error) error {
				t.Error("Failed is called for an object that could not be read")
				return nil
			}
			s.run(Options{Events: events}, c)
			s.sleep(time.Minute)
			posted := func() int { return s.count("POST /apis/events.k8s.io/v1/namespaces/default/events") }
			s.put("a", func(g *gizmo) { g.Annotations = map[string]string{unreadableAnnotation: "yes"} })
			s.sleep(time.Minute)
			first := posted()
			if first == 0 {
				t.Errorf("no event says that the object cannot be read:\n%s", s.log)
			}
			if departed {
				s.put("a", unwatched)
			}
			s.erase("a")
			s.sleep(time.Minute)
			if posted() == first {
				t.Errorf("no event says why the deletion hangs:\n%s", s.log)
			}
			const why = "the finalizer stays until the object can be read and cleaned up"
			was := s.log.count("reconcile failed", why)
			s.sleep(time.Hour)
			if n := s.log.count("reconcile failed", why); n < was+10 {
				t.Errorf("in an hour it is said %d times why the deletion hangs:\n%s", n, s.log)
			}
			if all := cleaned.get(); len(all) > 0 {
				t.Errorf("%q were cleaned up", all)
			}
			s.put("a", func(g *gizmo) { g.Annotations = nil })
			s.sleep(time.Hour)
			if n := len(cleaned.get()); s.gizmo("a") != nil || n != 1 {
				t.Errorf("when it can be read again, it is cleaned up %d times: %v", n, s.gizmo("a"))
			}
		})
	}
}
