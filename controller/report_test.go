package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/event"
	"github.com/pintle-go/pintle/internal/apitest"
	"github.com/pintle-go/pintle/kube"
)

// playedEvents is a server that accepts Events.
type playedEvents struct {
	mu  sync.Mutex
	all []*eventsv1.Event
}

func (s *playedEvents) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	e := new(eventsv1.Event)
	apitest.Decode(body, e)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, e)
	return new(played).answer(201, e)
}

// about returns the events that were recorded about an object, as "Reason: note".
func (s *playedEvents) about(name string) (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.all {
		if e.Regarding.Name == name {
			all = append(all, e.Reason+": "+e.Note)
		}
	}
	return all
}

// A failure is recorded once on the object: by the reconcile, if it has recorded a
// warning with the error, or by the controller.
func TestFailureIsSaidOnce(t *testing.T) {
	for name, test := range map[string]struct {
		record func(r *event.Recorder, g *gizmo, err error)
		failed bool // Failed records it
		want   []string
	}{
		"by the controller": {func(*event.Recorder, *gizmo, error) {}, false, []string{"ReconcileFailed: apply: broken"}},
		"by the reconcile": {func(r *event.Recorder, g *gizmo, err error) {
			r.Warning(g, "ApplyFailed", "of %s: %v", "it", err)
		}, false, []string{"ApplyFailed: of it: broken"}},
		"by Failed": {func(r *event.Recorder, g *gizmo, err error) {
			r.Warning(g, "ApplyFailed", "of %s: %v", "it", err)
		}, true, []string{"ApplyFailed: of it: broken"}},
		"another warning": {func(r *event.Recorder, g *gizmo, _ error) {
			r.Warning(g, "TooLarge", "%d is too large", 3)
		}, false, []string{"TooLarge: 3 is too large", "ReconcileFailed: apply: broken"}},
		"no warning": {func(r *event.Recorder, g *gizmo, err error) {
			r.Normal(g, "Tried", "of %s: %v", "it", err)
		}, false, []string{"Tried: of it: broken", "ReconcileFailed: apply: broken"}},
		"of another object": {func(r *event.Recorder, g *gizmo, err error) {
			other := *g
			other.Name, other.UID = "b", "another"
			r.Warning(&other, "ApplyFailed", "of %s: %v", "it", err)
		}, false, []string{"ReconcileFailed: apply: broken"}},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				events := new(playedEvents)
				client, err := kube.Config{Rest: &rest.Config{Host: "http://events", Transport: events}}.Connect()
				if err != nil {
					s.Fatal(err)
				}
				recorder := &event.Recorder{Client: client, Controller: "example.com/test", Logger: slog.New(s.log)}
				c := Controller[gizmo]{Backoff: Backoff{Min: time.Hour}}
				c.Reconcile = func(_ context.Context, g *gizmo) (Action, error) {
					if !test.failed {
						test.record(recorder, g, errBroken)
					}
					return Done, fmt.Errorf("apply: %w", errBroken)
				}
				if test.failed {
					c.Failed = func(_ context.Context, g *gizmo, _ error) error {
						test.record(recorder, g, errBroken)
						return nil
					}
				}
				s.put("a", func(*gizmo) {})
				stop := s.start(Options{Events: recorder}, c)
				s.sleep(time.Minute)
				if got := events.about("a"); !slices.Equal(got, test.want) {
					s.Errorf("the events are %q, want %q", got, test.want)
				}
				if err := stop(); err != nil {
					s.Error(err)
				}
			})
		})
	}
}

// Log lines about a reconcile are made with the context that Trace returned, so that a
// tracer's log handler finds the trace.
func TestLogsCarryTheTrace(t *testing.T) {
	onStage(t, func(s *stage) {
		for _, name := range []string{"fails", "panics", "ends", "works", "tells"} {
			s.put(name, func(*gizmo) {})
		}
		trace := func(ctx context.Context, _ string, attrs ...slog.Attr) (context.Context, func(error, ...slog.Attr)) {
			name := ""
			for _, a := range attrs {
				if a.Key == "name" {
					name = a.Value.String()
				}
			}
			return context.WithValue(ctx, traceKey{}, "of-"+name), func(error, ...slog.Attr) {}
		}
		s.start(Options{Trace: trace}, Controller[gizmo]{
			Backoff: Backoff{Min: time.Hour},
			Reconcile: func(_ context.Context, g *gizmo) (Action, error) {
				switch g.Name {
				case "panics":
					panic("oh")
				case "ends":
					return Done, Terminal(errBroken)
				case "works":
					return Done, nil
				}
				return Done, errBroken
			},
			Failed: func(ctx context.Context, g *gizmo, err error) error {
				if g.Name != "tells" {
					return nil
				}
				if ctx.Value(traceKey{}) != "of-tells" {
					s.Error("Failed gets a context without the trace")
				}
				return errors.New("cannot tell")
			},
		})
		s.sleep(time.Second)
		for object, text := range map[string]string{
			"fails": "reconcile failed", "panics": "reconcile panicked", "ends": "not retried", "works": "reconciled",
			"tells": "cannot report",
		} {
			if s.log.count("default/"+object, text, "trace=of-"+object) != 1 {
				s.Errorf("there is no line %q of %s with its trace:\n%s", text, object, s.log)
			}
		}
	})
}

func conflict(name string) error {
	resource := schema.GroupResource{Group: "example.com", Resource: "gizmos"}
	return fmt.Errorf("apply: %w", apierrors.NewConflict(resource, name, errors.New("the uid is another")))
}

// A reconcile that fails because somebody has deleted its object has not failed. A
// reconcile that misses another object has failed.
func TestObjectIsGoneMeanwhile(t *testing.T) {
	onStage(t, func(s *stage) {
		for _, name := range []string{"deleted", "recreated", "kept"} {
			s.put(name, func(*gizmo) {})
		}
		var failures, conflicts atomic.Int32
		s.start(Options{}, Controller[gizmo]{
			Backoff: Backoff{Min: time.Hour},
			Reconcile: func(ctx context.Context, g *gizmo) (Action, error) {
				switch {
				case g.Name == "kept":
					_, err := s.gizmos.Get(ctx, "missing")
					return Done, err
				case g.Spec.Size == 0:
					time.Sleep(time.Second)
					s.delete(g.Name)
					if g.Name == "recreated" {
						s.put(g.Name, func(g *gizmo) { g.Spec.Size = 1 })
						conflicts.Add(1)
						return Done, conflict(g.Name)
					}
					return Done, s.gizmos.Status().Apply(ctx, g)
				}
				return Done, nil
			},
			Failed: func(_ context.Context, g *gizmo, _ error) error {
				failures.Add(1)
				if g.Name != "kept" {
					s.Errorf("%s has failed", g.Name)
				}
				return nil
			},
		})
		s.sleep(time.Minute)
		if s.log.count("ERROR") != 1 || s.log.count("level=ERROR", "default/kept") != 1 || failures.Load() != 1 {
			s.Errorf("the log:\n%s", s.log)
		}
		for _, name := range []string{"deleted", "recreated"} {
			if s.log.count("level=DEBUG", "its object was deleted", "default/"+name) != 1 {
				s.Errorf("nothing is said of %s:\n%s", name, s.log)
			}
		}
		// The recreated object is another object, and is reconciled.
		if n := len(s.ran("recreated")); n != 2 || s.log.count("retryIn") != 1 {
			s.Errorf("%d reconciles:\n%s", n, s.log)
		}
	})
}
