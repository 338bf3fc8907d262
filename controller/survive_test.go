package controller

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// wrapping is an error that breaks if it is nil, as those of many packages do.
type wrapping struct{ cause error }

func (e *wrapping) Error() string { return "wrapped: " + e.cause.Error() }
func (e *wrapping) Unwrap() error { return e.cause }

// An error that cannot be looked at, such as a nil pointer of its type, is a failure
// of the object like any other.
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

// The same holds for what Gone returns.
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

// A trace function that panics at a request, or that returns no context, ends no
// process either.
func TestTraceThatBreaks(t *testing.T) {
	for name, trace := range map[string]TraceFunc{
		"at a request": func(ctx context.Context, name string, _ ...slog.Attr) (context.Context, func(error, ...slog.Attr)) {
			if name == "get Gizmo" {
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
