package controller

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube"
)

// A reconcile that ends its goroutine has failed: its key is retried, and another worker
// takes its place.
func TestGoexitInReconcile(t *testing.T) {
	onStage(t, func(s *stage) {
		for _, name := range []string{"exits", "works"} {
			s.put(name, func(*gizmo) {})
		}
		var tries, reported atomic.Int32
		s.start(Options{}, Controller[gizmo]{
			Concurrency: 1, Backoff: Backoff{Min: time.Second, Max: time.Second},
			Reconcile: func(_ context.Context, g *gizmo) (Action, error) {
				if g.Name == "exits" && tries.Add(1) <= 3 {
					runtime.Goexit()
				}
				return Done, nil
			},
			Failed: func(_ context.Context, _ *gizmo, err error) error {
				reported.Add(1)
				if !errors.Is(err, errGoexit) {
					t.Errorf("the failure is %v", err)
				}
				runtime.Goexit()
				return nil
			},
		})
		s.sleep(time.Minute)
		if n := tries.Load(); n != 4 {
			t.Errorf("%d tries, want 4", n)
		}
		if n := reported.Load(); n != 3 {
			t.Errorf("%d failures were reported, want 3", n)
		}
		s.put("works", func(g *gizmo) { g.Spec.Size = 1 })
		s.sleep(0)
		if n := len(s.ran("works")); n != 2 {
			t.Errorf("the other object was reconciled %d times, want 2", n)
		}
		for _, want := range [][]string{
			{"reconcile panicked", "default/exits", "runtime.Goexit", "broken_test.go"},
			{"cannot report the failure", "default/exits", "runtime.Goexit"},
		} {
			if n := s.log.count(want...); n != 3 {
				t.Errorf("%q is logged %d times:\n%s", want, n, s.log)
			}
		}
	})
}

// A cleanup that ends its goroutine has failed: it is called again, and the object keeps
// its finalizer until the cleanup is done.
func TestGoexitInCleanup(t *testing.T) {
	onStage(t, func(s *stage) {
		now := metav1.Now()
		s.put("exits", func(g *gizmo) { g.Finalizers, g.DeletionTimestamp = []string{"example.com/gizmo"}, &now })
		s.put("works", func(g *gizmo) { g.Finalizers = []string{"example.com/gizmo"} })
		var tries, reported atomic.Int32
		const broken = 3
		s.start(Options{}, Controller[gizmo]{
			Concurrency: 1, Backoff: Backoff{Min: time.Second, Max: time.Second},
			Reconcile: func(context.Context, *gizmo) (Action, error) { return Done, nil },
			Cleanup: func(context.Context, *gizmo) (Action, error) {
				if tries.Add(1) > broken {
					return Done, nil
				}
				if n := s.count("PATCH " + playedPath + "/exits"); n > 0 {
					t.Errorf("the finalizer is removed before the cleanup is done: %d patches", n)
				}
				runtime.Goexit()
				return Done, nil
			},
			Failed: func(_ context.Context, _ *gizmo, err error) error {
				if errors.Is(err, errGoexit) {
					reported.Add(1)
				}
				return nil
			},
		})
		s.sleep(broken*time.Second + time.Second/2)
		if n := tries.Load(); n <= broken {
			t.Errorf("%d tries, want one more than %d", n, broken)
		}
		if n := reported.Load(); n != broken {
			t.Errorf("%d failures were reported, want %d", n, broken)
		}
		if n := s.log.count("reconcile panicked", "default/exits", "runtime.Goexit", "broken_test.go"); n != broken {
			t.Errorf("%d failures are logged, want %d:\n%s", n, broken, s.log)
		}
		if s.count("PATCH "+playedPath+"/exits") == 0 {
			t.Error("the finalizer is not removed after the cleanup")
		}
		s.put("works", func(g *gizmo) { g.Spec.Size = 1 })
		s.sleep(0)
		if n := len(s.ran("works")); n != 2 {
			t.Errorf("the other object was reconciled %d times, want 2", n)
		}
	})
}

// Filters, mappers, timers and channels go on after a function that ends its goroutine.
func TestGoexitInSources(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("g", func(*gizmo) {})
		ticks, mapped := 0, 0
		clock := Every("clock", time.Second, func(context.Context) []kube.Key {
			if ticks++; ticks == 1 {
				runtime.Goexit()
			}
			return []kube.Key{named("g")}
		})
		mapper := Mapped(s.gizmos, func(context.Context, *gizmo) []kube.Key {
			if mapped++; mapped == 1 {
				runtime.Goexit()
			}
			return []kube.Key{named("g")}
		})
		s.start(Options{}, Controller[gizmo]{
			Watches:   []Source{clock, mapper},
			Predicate: func(c kube.Change) bool { runtime.Goexit(); return false },
			Reconcile: func(context.Context, *gizmo) (Action, error) { return Done, nil },
		})
		if n := len(s.ran("g")); n != 1 {
			t.Errorf("%d reconciles of an object that a predicate should have passed, want 1", n)
		}
		s.sleep(2500 * time.Millisecond)
		if runs := s.ran("g"); len(runs) != 2 || !slices.Equal(runs[1].reasons(), []Reason{Triggered}) {
			t.Errorf("after a tick that ended its goroutine and one that did not: %v", runs)
		}
		s.put("g", func(g *gizmo) { g.Spec.Size = 1 })
		s.sleep(100 * time.Millisecond)
		if n := len(s.ran("g")); n < 3 {
			t.Error("a change after that is lost")
		}
		for _, want := range []string{"the predicate panicked", "a source panicked",
			"cannot find the objects that a change concerns"} {
			if n := s.log.count(want, "runtime.Goexit"); n == 0 {
				t.Errorf("%q is not logged:\n%s", want, s.log)
			}
		}
	})
}

// A hook that ends its goroutine answers 500.
func TestGoexitInHook(t *testing.T) {
	onStage(t, func(s *stage) {
		started := make(chan *engine[gizmo], 1)
		hook := Hook("POST /hook", func(*http.Request) ([]kube.Key, error) { runtime.Goexit(); return nil, nil })
		s.run(Options{}, spied{Controller[gizmo]{
			For: s.gizmos, Watches: []Source{hook},
			Reconcile: func(context.Context, *gizmo) (Action, error) { return Done, nil },
		}, started})
		w := httptest.NewRecorder()
		(<-started).hooks()[0].handler(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/hook", nil))
		if w.Code != http.StatusInternalServerError || s.log.count("a hook panicked", "runtime.Goexit") != 1 {
			t.Errorf("the answer is %d, the log:\n%s", w.Code, s.log)
		}
	})
}

// A panic in the trace function or in the decoding of an object is a failure of
// the object.
func TestPanicInTrace(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("g", func(*gizmo) {})
		s.start(Options{Trace: panickingTrace}, Controller[gizmo]{
			Reconcile: func(context.Context, *gizmo) (Action, error) { return Done, nil },
		})
		s.sleep(time.Second)
		if n := s.log.count("reconcile panicked", "default/g", "panic: no trace"); n < 2 {
			t.Errorf("the panic is logged %d times:\n%s", n, s.log)
		}
	})
}

// For all durations in an error or a configuration, the delay is sound.
func TestOddDurations(t *testing.T) {
	for _, seconds := range []int32{-1, -1 << 31, 0, 1<<31 - 1} {
		err := &apierrors.StatusError{ErrStatus: metav1.Status{
			Reason: metav1.StatusReasonServerTimeout, Details: &metav1.StatusDetails{RetryAfterSeconds: seconds},
		}}
		for _, b := range []Backoff{{}, {Min: 1, Max: 1}, {Min: 1<<63 - 1}, {Max: 1<<63 - 1}, {Min: -1, Max: -1}} {
			b = b.withDefaults()
			for _, failures := range []int{0, 1, 50, 1 << 40} {
				if d := b.delay(failures, err); d < 0 || d > b.Max {
					t.Errorf("%+v: after %d failures and with %d s asked for, the delay is %s", b, failures, seconds, d)
				}
			}
		}
	}
	onStage(t, func(s *stage) {
		for name, c := range map[string]Controller[gizmo]{
			"Resync":      {Resync: 1<<63 - 1},
			"Concurrency": {Concurrency: 1 << 40},
			"clock":       {Watches: []Source{Every("clock", 0, func(context.Context) []kube.Key { return nil })}},
			"negative":    {MinInterval: -1},
		} {
			c.For = s.gizmos
			c.Reconcile = func(context.Context, *gizmo) (Action, error) { return Done, nil }
			if err := Run(t.Context(), Options{}, c); err == nil {
				t.Errorf("%s: Run accepts it", name)
			}
		}
	})
}

func panickingTrace(context.Context, string, ...slog.Attr) (context.Context, func(error, ...slog.Attr)) {
	panic("no trace")
}
