package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pintle-go/pintle/kube"
)

var errBroken = errors.New("broken")

// The back-off of an object grows with its own failures, and is reset by a success.
// Another object is not delayed.
func TestBackoffPerObject(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("bad", func(*gizmo) {})
		s.put("good", func(*gizmo) {})
		var heal atomic.Bool
		s.start(Options{}, Controller[gizmo]{Backoff: Backoff{Min: time.Second, Max: time.Minute},
			Reconcile: func(_ context.Context, g *gizmo) (Action, error) {
				if g.Name == "bad" && !heal.Load() {
					return Done, errBroken
				}
				return Done, nil
			}})
		s.sleep(10 * time.Minute)
		runs := s.ran("bad")
		want := time.Second
		for i := 1; i < len(runs); i++ {
			if d := runs[i].at - runs[i-1].at; d < want/2 || d > want {
				t.Errorf("try %d came %s after the one before, want between %s and %s", i+1, d, want/2, want)
			}
			if got := runs[i].reasons(); !slices.Equal(got, []Reason{Retried}) || !errors.Is(runs[i].causes[0].Err, errBroken) {
				t.Errorf("try %d runs because of %v", i+1, runs[i].causes)
			}
			want = min(2*want, time.Minute)
		}
		if len(runs) < 12 {
			t.Errorf("%d tries in ten minutes", len(runs))
		}
		if n := len(s.ran("good")); n != 1 {
			t.Errorf("the other object was reconciled %d times, want once", n)
		}
		if n := s.log.count("reconcile failed", "default/bad", "broken", "retryIn"); n != len(runs) {
			t.Errorf("%d log lines for %d failures:\n%s", n, len(runs), s.log)
		}
		heal.Store(true)
		s.sleep(time.Minute)
		heal.Store(false)
		before := len(s.ran("bad"))
		s.put("bad", func(g *gizmo) { g.Spec.Size++ })
		s.sleep(1 * time.Second)
		if got := len(s.ran("bad")) - before; got < 2 {
			t.Errorf("%d tries in the first second after a success and a failure, want two at least", got)
		}
	})
}

// The server gets no requests while nothing changes.
func TestSteadyState(t *testing.T) {
	onStage(t, func(s *stage) {
		for i := range 100 {
			s.put(fmt.Sprint("g", i), func(g *gizmo) { g.Spec.Size = i })
		}
		s.start(Options{}, Controller[gizmo]{Resync: time.Minute,
			Reconcile: func(ctx context.Context, g *gizmo) (Action, error) {
				g.Status.Seen = g.Spec.Size
				return Done, s.gizmos.Status().Ensure(ctx, g)
			}})
		s.sleep(10 * time.Minute)
		if n := s.count("PATCH"); n != 100 {
			t.Errorf("%d writes for 100 objects, whose status is written once", n)
		}
		if n := len(s.ran("")); n < 1000 {
			t.Errorf("only %d reconciles", n)
		}
		s.put("g5", func(g *gizmo) { g.Spec.Size = 500 })
		s.sleep(time.Minute)
		if n := s.count("PATCH"); n != 101 {
			t.Errorf("%d writes after a change, want one more than 100", n)
		}
		// A change of the status by somebody else is put back.
		s.put("g5", func(g *gizmo) { g.Status.Seen = 3 })
		s.sleep(time.Minute)
		if n := s.count("PATCH"); n != 102 {
			t.Errorf("%d writes after the status was changed, want 102", n)
		}
	})
}

// A reconcile that its own writes cause again and again is reported, with the fields that
// flip, and slowed down.
func TestHotLoop(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("hot", func(*gizmo) {})
		s.put("steps", func(*gizmo) {})
		s.start(Options{}, Controller[gizmo]{Reconcile: func(ctx context.Context, g *gizmo) (Action, error) {
			if g.Name == "hot" || g.Status.Seen < 5 {
				g.Status.Seen++
			}
			return Done, s.gizmos.Status().Ensure(ctx, g)
		}})
		s.sleep(time.Minute)
		if n := len(s.ran("hot")); n < hotDepth+50 || n > hotDepth+70 {
			t.Errorf("a hot loop ran %d times in a minute, want once a second after it was seen", n)
		}
		if n := s.log.count("reconciled in a loop", "default/hot", "Gizmo default/hot status.seen"); n != 1 {
			t.Errorf("the hot loop was said %d times:\n%s", n, s.log)
		}
		if n := s.log.count("reconciled in a loop"); n != 1 {
			t.Errorf("%d hot loops were said, there is one", n)
		}
		before := len(s.ran("hot"))
		s.put("hot", func(g *gizmo) { g.Spec.Size = 1 })
		s.sleep(hotPause)
		if n := len(s.ran("hot")); n == before {
			t.Error("somebody else's change waits")
		}
		s.sleep(10 * time.Minute)
		if n := s.log.count("reconciled in a loop"); n < 2 || n > 4 {
			t.Errorf("the hot loop was said %d times in ten minutes", n)
		}
	})
}

// The writes of a failing reconcile to the status do not cut its back-off short.
func TestFailureInStatus(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("bad", func(*gizmo) {})
		s.start(Options{}, Controller[gizmo]{
			Backoff:   Backoff{Min: time.Second, Max: time.Hour},
			Reconcile: func(context.Context, *gizmo) (Action, error) { return Done, errBroken },
			Failed: func(ctx context.Context, g *gizmo, err error) error {
				g.Status.Seen++
				return s.gizmos.Status().Ensure(ctx, g)
			},
		})
		s.sleep(5 * time.Minute)
		if n := len(s.ran("bad")); n < 8 || n > 11 {
			t.Errorf("%d tries in five minutes, want those of the back-off", n)
		}
		if n := s.log.count("reconciled in a loop"); n != 0 {
			t.Errorf("a failure is said to be a hot loop:\n%s", s.log)
		}
		before := len(s.ran("bad"))
		s.put("bad", func(g *gizmo) { g.Spec.Size = 1 })
		s.sleep(0)
		if n := len(s.ran("bad")) - before; n != 1 {
			t.Errorf("%d tries at once after a change of the spec, want 1", n)
		}
	})
}

// A panic and a reconcile that takes too long are failures of one object.
func TestPanicAndTimeout(t *testing.T) {
	onStage(t, func(s *stage) {
		for _, name := range []string{"panics", "hangs", "works"} {
			s.put(name, func(*gizmo) {})
		}
		var failed, spans sync.Map
		trace := func(ctx context.Context, name string, attrs ...slog.Attr) (context.Context, func(error, ...slog.Attr)) {
			return ctx, func(err error, _ ...slog.Attr) {
				if err != nil {
					spans.Store(fmt.Sprint(name, attrs), err)
				}
			}
		}
		report := func(ctx context.Context, g *gizmo, err error) error {
			failed.Store(g.Name, err)
			return ctx.Err()
		}
		s.start(Options{Trace: trace}, Controller[gizmo]{Timeout: 10 * time.Second, Failed: report,
			Reconcile: func(ctx context.Context, g *gizmo) (Action, error) {
				switch g.Name {
				case "panics":
					panic("no gizmo")
				case "hangs":
					<-ctx.Done()
					return Done, ctx.Err()
				}
				return Done, nil
			}})
		s.sleep(11 * time.Second)
		if n := s.log.count("reconcile panicked", "default/panics", "panic: no gizmo", "engine_test.go"); n < 2 {
			t.Errorf("the panic is said %d times, with its stack:\n%s", n, s.log)
		}
		if n := s.log.count("reconcile failed", "default/hangs", errTimeout.Error()); n != 1 {
			t.Errorf("the time-out is said %d times:\n%s", n, s.log)
		}
		if err, _ := failed.Load("hangs"); !errors.Is(err.(error), errTimeout) {
			t.Errorf("the time-out is reported as %v", err)
		}
		if err, _ := failed.Load("panics"); err == nil || err.(error).Error() != "panic: no gizmo" ||
			s.log.count("cannot report") > 0 {
			t.Errorf("the panic is reported as %v", err)
		}
		want := "reconcile gizmo[controller=gizmo namespace=default name=panics uid=" + string(s.gizmo("panics").UID) +
			" causes=Gizmo default/panics listed]"
		if _, ok := spans.Load(want); !ok {
			t.Errorf("there is no span %q", want)
		}
		s.put("works", func(g *gizmo) { g.Spec.Size = 1 })
		s.sleep(0)
		if n := len(s.ran("works")); n != 2 {
			t.Errorf("the others were reconciled %d times, want 2", n)
		}
	})
}

// A predicate and a source that panic end neither the program nor the controller.
func TestPanicsOutsideReconcile(t *testing.T) {
	onStage(t, func(s *stage) {
		ticks := 0
		clock := Every("clock", time.Second, func(context.Context) []kube.Key {
			if ticks++; ticks == 1 {
				panic("no time")
			}
			return []kube.Key{{Namespace: "default", Name: "g"}}
		})
		s.put("g", func(*gizmo) {})
		s.start(Options{}, Controller[gizmo]{
			Watches: []Source{clock},
			Predicate: func(c kube.Change) bool {
				if c.Type == kube.Modified {
					panic("no predicate")
				}
				return true
			},
			Reconcile: func(context.Context, *gizmo) (Action, error) { return Done, nil },
		})
		s.put("g", func(g *gizmo) { g.Spec.Size = 1 })
		s.sleep(0)
		if runs := s.ran("g"); len(runs) != 2 {
			t.Errorf("a change that the predicate panicked at: %d reconciles, want 2", len(runs))
		}
		s.sleep(2500 * time.Millisecond)
		if runs := s.ran("g"); len(runs) != 3 || !slices.Equal(runs[2].reasons(), []Reason{Triggered}) {
			t.Errorf("after a tick that panicked and one that did not: %v", runs)
		}
		for _, want := range [][]string{
			{"the predicate panicked", "Gizmo default/g modified", "panic: no predicate", "engine_test.go"},
			{"a source panicked", "clock", "panic: no time", "engine_test.go"},
		} {
			if n := s.log.count(want...); n != 1 {
				t.Errorf("%q is said %d times:\n%s", want, n, s.log)
			}
		}
	})
}

// No more than Concurrency objects are reconciled at a time, and none twice at a time.
// Changes go ahead of the initial listing.
func TestConcurrencyAndPriority(t *testing.T) {
	onStage(t, func(s *stage) {
		for i := range 100 {
			s.put(fmt.Sprintf("old%02d", i), func(*gizmo) {})
		}
		var mu sync.Mutex
		active, most, twice := make(map[string]bool), 0, 0
		s.start(Options{}, Controller[gizmo]{Concurrency: 3, Reconcile: func(_ context.Context, g *gizmo) (Action, error) {
			mu.Lock()
			if active[g.Name] {
				twice++
			}
			active[g.Name] = true
			most = max(most, len(active))
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			delete(active, g.Name)
			mu.Unlock()
			return Done, nil
		}})
		s.sleep(3500 * time.Millisecond)
		s.put("new", func(*gizmo) {})
		before := len(s.ran("old05"))
		s.put("old05", func(g *gizmo) { g.Spec.Size = 9 })
		s.sleep(1 * time.Second)
		for _, name := range []string{"new", "old05"} {
			if runs := s.ran(name); len(runs) == 0 || runs[len(runs)-1].at != 4*time.Second {
				t.Errorf("%s did not go ahead: %v", name, runs)
			}
		}
		s.sleep(time.Minute)
		if n := len(s.ran("")); n != 101+before {
			t.Errorf("%d reconciles of 101 objects, one of them %d times", n, 1+before)
		}
		if most != 3 || twice > 0 {
			t.Errorf("%d at a time, want 3; %d objects twice at a time", most, twice)
		}
	})
}

// When the program stops, no new reconcile starts. Running ones may finish, and their
// context ends when the grace period is over.
func TestGrace(t *testing.T) {
	onStage(t, func(s *stage) {
		// They are listed in any order: one is quick, one is slow, one waits.
		for _, name := range []string{"a", "b", "c"} {
			s.put(name, func(*gizmo) {})
		}
		var started, finished atomic.Int32
		var cause error
		stop := s.start(Options{Grace: 10 * time.Second},
			Controller[gizmo]{Concurrency: 2, Reconcile: func(ctx context.Context, _ *gizmo) (Action, error) {
				if started.Add(1) == 1 {
					time.Sleep(5 * time.Second)
					if ctx.Err() == nil {
						finished.Add(1)
					}
					return After(0), nil
				}
				<-ctx.Done()
				cause = context.Cause(ctx)
				return Done, ctx.Err()
			}})
		s.sleep(time.Second)
		if err := stop(); err != nil {
			t.Error(err)
		}
		if took := time.Since(s.begun); took != 11*time.Second {
			t.Errorf("it stopped after %s, want 11s", took)
		}
		if finished.Load() != 1 || !errors.Is(cause, errGrace) {
			t.Errorf("%d finished, the other's context ended with %v", finished.Load(), cause)
		}
		if n := len(s.ran("")); n != 2 {
			t.Errorf("%d reconciles, want no new one", n)
		}
		if s.log.count("reconcile failed") > 0 || s.log.count("longer than the grace period") != 1 {
			t.Errorf("the log:\n%s", s.log)
		}
	})
}

// An object that is deleted costs no reconcile, and its successor is a new object.
func TestDeletedAndMadeAnew(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("g", func(*gizmo) {})
		s.start(Options{}, Controller[gizmo]{
			Predicate: kube.Change.NewGeneration,
			Reconcile: func(_ context.Context, g *gizmo) (Action, error) {
				return After(time.Minute), nil
			},
		})
		s.delete("g")
		s.sleep(time.Hour)
		if n := len(s.ran("g")); n != 1 {
			t.Errorf("%d reconciles, want none after the deletion", n)
		}
		s.put("g", func(*gizmo) {}) // of the same generation
		s.sleep(0)
		if n := len(s.ran("g")); n != 2 {
			t.Errorf("%d reconciles, want one for the new object", n)
		}
		s.put("g", func(g *gizmo) { g.Status.Seen = 9 })
		s.sleep(0)
		if n := len(s.ran("g")); n != 2 {
			t.Error("the predicate lets a change of the status pass")
		}
	})
}

// 5,000 objects that ask for themselves at once make 15,000 reconciles in no time. Each
// object gets its turn before any object has its next turn but one.
func TestManyAtOnce(t *testing.T) {
	onStage(t, func(s *stage) {
		const objects = 5000
		for i := range objects {
			s.put(fmt.Sprint(i), func(*gizmo) {})
		}
		var mu sync.Mutex
		turns := make(map[string]int, objects)
		s.start(Options{}, Controller[gizmo]{Reconcile: func(_ context.Context, g *gizmo) (Action, error) {
			mu.Lock()
			defer mu.Unlock()
			if turns[g.Name]++; turns[g.Name] == 3 {
				return Await, nil
			}
			return After(0), nil
		}})
		s.sleep(time.Second)
		for name, n := range turns {
			if n != 3 {
				t.Fatalf("%s was reconciled %d times, want 3", name, n)
			}
		}
		if len(turns) != objects {
			t.Errorf("%d objects were reconciled", len(turns))
		}
	})
}

func TestBackoffDelay(t *testing.T) {
	b := Backoff{}.withDefaults()
	for failures := 1; failures < 100; failures++ {
		want := time.Duration(min(float64(b.Max), float64(b.Min)*math.Pow(2, float64(failures-1))))
		if d := b.delay(failures, errBroken); d < want/2 || d > want {
			t.Errorf("delay %d is %s, want between %s and %s", failures, d, want/2, want)
		}
	}
	asked := apierrors.NewTooManyRequests("later", 30)
	if d := b.delay(1, asked); d < 30*time.Second || d > 35*time.Second {
		t.Errorf("the server asks for 30s, the delay is %s", d)
	}
}
