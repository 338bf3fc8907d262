package controller

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pintle-go/pintle/kube"
)

// wrapping is an error whose methods panic if it is nil, as the errors of many packages
// do.
type wrapping struct{ cause error }

func (e *wrapping) Error() string { return "wrapped: " + e.cause.Error() }
func (e *wrapping) Unwrap() error { return e.cause }

// An error whose methods panic, such as a nil pointer of its type, is a failure of the
// object like any other.
func TestErrorThatPanics(t *testing.T) {
	for name, reconcile := range map[string]func(context.Context, *gizmo) (Action, error){
		"returned": func(context.Context, *gizmo) (Action, error) { return Done, (*wrapping)(nil) },
		"panic":    func(context.Context, *gizmo) (Action, error) { panic((*wrapping)(nil)) },
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.put("g", func(*gizmo) {})
				s.start(Options{}, Controller[gizmo]{
					Reconcile: reconcile,
					Failed:    func(_ context.Context, _ *gizmo, err error) error { return errors.New(err.Error()) },
				})
				s.sleep(time.Second)
				if n := len(s.ran("g")); n < 2 {
					t.Errorf("%d reconciles", n)
				}
				if s.log.count("reconcile panicked", "default/g") == 0 {
					t.Errorf("the log:\n%s", s.log)
				}
			})
		})
	}
}

// The same holds for an error of Gone.
func TestErrorOfGoneThatPanics(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("g", func(*gizmo) {})
		var told atomic.Int32
		s.start(Options{}, Controller[gizmo]{
			Reconcile: func(context.Context, *gizmo) (Action, error) { return Done, nil },
			Gone: func(context.Context, *gizmo) error {
				if told.Add(1) < 3 {
					return (*wrapping)(nil)
				}
				return nil
			},
		})
		s.delete("g")
		s.sleep(time.Minute)
		if n := told.Load(); n != 3 {
			t.Errorf("Gone is called %d times", n)
		}
	})
}

// Neither a trace function that panics at a request, nor one that returns no context,
// ends the process.
func TestTraceThatBreaks(t *testing.T) {
	for name, trace := range map[string]TraceFunc{
		"at a request": func(ctx context.Context, name string, _ ...slog.Attr) (context.Context, func(error, ...slog.Attr)) {
			if name == "list Gizmo" {
				panic("no trace")
			}
			return ctx, func(error, ...slog.Attr) {}
		},
		"without a context": func(context.Context, string, ...slog.Attr) (context.Context, func(error, ...slog.Attr)) {
			return nil, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.put("g", func(*gizmo) {})
				s.start(Options{Trace: trace}, Controller[gizmo]{
					Reconcile: func(context.Context, *gizmo) (Action, error) {
						return Done, apierrors.NewNotFound(schema.GroupResource{Resource: "things"}, "x")
					},
					Failed: func(context.Context, *gizmo, error) error { return nil },
				})
				s.sleep(time.Second)
				if n := s.log.count("reconcile panicked", "default/g"); n < 2 {
					t.Errorf("%d reconciles failed:\n%s", n, s.log)
				}
			})
		})
	}
}

// brittle is a gizmo that panics when one of size 13 is decoded, or when any is encoded.
type brittle struct {
	kube.Object
	Spec struct {
		Size unlucky `json:"size"`
	} `json:"spec"`
}

func (brittle) GVK() kube.GVK { return gizmo{}.GVK() }

type unlucky int

func (u *unlucky) UnmarshalJSON(text []byte) error {
	if string(text) == "13" {
		panic("bad luck")
	}
	return json.Unmarshal(text, (*int)(u))
}

func (unlucky) MarshalJSON() ([]byte, error) { panic("not to be written") }

func (s *stage) brittle() kube.Resource[brittle] {
	return kube.For[brittle](s.gizmos.Client(),
		kube.Kind{GVK: gizmo{}.GVK(), Plural: "gizmos", Scope: kube.Namespaced}).In("default")
}

// A type that panics while it is decoded does not end a program that maps its objects.
func TestMappedTypeThatPanics(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("g", func(*gizmo) {})
		s.start(Options{}, Controller[gizmo]{
			Watches:   []Source{Mapped(s.brittle(), func(context.Context, *brittle) []kube.Key { return nil })},
			Reconcile: func(context.Context, *gizmo) (Action, error) { return Done, nil },
		})
		s.put("g", func(g *gizmo) { g.Spec.Size = 13 })
		s.sleep(time.Second)
		if s.log.count("cannot find the objects that a change concerns", "panic: bad luck") != 1 || len(s.ran("g")) != 2 {
			t.Errorf("%d reconciles:\n%s", len(s.ran("g")), s.log)
		}
	})
}

// A type that panics while it is encoded does not end the program either, when the report of a
// hot loop compares its states.
func TestLoopOfTypeThatPanics(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("g", func(*gizmo) {})
		runs := 0
		s.run(Options{}, Controller[brittle]{
			For: s.brittle(),
			Reconcile: func(ctx context.Context, b *brittle) (Action, error) {
				runs++
				return Done, s.seen(ctx, b.Name, runs)
			},
		})
		s.sleep(time.Minute)
		if runs < hotDepth || s.log.count("reconciled in a loop", "Gizmo default/g (modified)") != 1 {
			t.Errorf("%d reconciles:\n%s", runs, s.log)
		}
	})
}
