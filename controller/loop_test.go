package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pintle-go/pintle/kube"
)

// held checks that an object in a hot loop has few turns and is reported.
func (s *stage) held(name string, said ...string) {
	s.Helper()
	s.sleep(10 * time.Second)
	before := len(s.ran(name))
	if before < freeTurns || before > 40 {
		s.Errorf("%s was reconciled %d times in ten seconds", name, before)
	}
	s.sleep(20 * time.Second)
	if n := len(s.ran(name)) - before; n < 10 || n > 21 {
		s.Errorf("%s was reconciled %d times in 20 s after that, want about one a second", name, n)
	}
	if n := s.log.count(append(said, "reconciled in a loop", "default/"+name)...); n != 1 {
		s.Errorf("the hot loop of %s is reported %d times:\n%s", name, n, s.log.tail(3))
	}
}

// free checks that objects are not delayed.
func (s *stage) free(name string, least int) {
	s.Helper()
	if n := len(s.ran(name)); n < least {
		s.Errorf("%s was reconciled %d times, want %d at least", name, n, least)
	}
	if n := s.log.count("reconciled in a loop"); n != 0 {
		s.Errorf("a hot loop is reported that is none:\n%s", s.log.tail(3))
	}
}

// An object that asks for itself at once, or at a time that has passed, is slowed down.
func TestAtOnceIsHeld(t *testing.T) {
	for name, action := range map[string]func() Action{
		"zero":     func() Action { return After(0) },
		"past":     func() Action { return After(-time.Hour) },
		"quick":    func() Action { return After(time.Microsecond) },
		"smallest": func() Action { return After(-1 << 63) },
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.put("g", func(*gizmo) {})
				s.start(Options{}, Controller[gizmo]{Reconcile: func(context.Context, *gizmo) (Action, error) {
					return action(), nil
				}})
				s.held("g", "causes=requested")
			})
		})
	}
}

// A resync and a back-off of next to nothing are slowed down too.
func TestTinyDurationsAreHeld(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("g", func(*gizmo) {})
		s.start(Options{}, Controller[gizmo]{Resync: 1, Reconcile: func(context.Context, *gizmo) (Action, error) {
			return Done, nil
		}})
		s.held("g", "causes=resync")
	})
	onStage(t, func(s *stage) {
		s.put("g", func(*gizmo) {})
		s.start(Options{}, Controller[gizmo]{Backoff: Backoff{Min: 1, Max: 1},
			Reconcile: func(context.Context, *gizmo) (Action, error) {
				return Done, errBroken
			}})
		s.held("g", "causes=retry")
	})
}

// An object that asks for a reconcile after a while, even a short one, gets it.
func TestShortAfterIsFree(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("g", func(*gizmo) {})
		s.start(Options{}, Controller[gizmo]{Reconcile: func(context.Context, *gizmo) (Action, error) {
			return After(50 * time.Millisecond), nil
		}})
		s.sleep(time.Minute)
		s.free("g", 1150)
	})
}

// A reconcile that writes with another context, or by another client, is in a loop just
// as one that writes with its own context.
func TestUnseenWritesAreHeld(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("g", func(*gizmo) {})
		s.start(Options{}, Controller[gizmo]{Reconcile: func(_ context.Context, g *gizmo) (Action, error) {
			g.Status.Seen++
			return Done, s.gizmos.Status().Apply(context.Background(), g)
		}})
		s.held("g", "Gizmo default/g status.seen")
	})
	onStage(t, func(s *stage) {
		s.put("g", func(*gizmo) {})
		s.start(Options{}, Controller[gizmo]{Reconcile: func(_ context.Context, g *gizmo) (Action, error) {
			s.put("g", func(g *gizmo) { g.Spec.Size++ })
			return Done, nil
		}})
		s.held("g", "Gizmo default/g spec.size")
	})
}

// Two keys that write each other's objects are both held.
func TestKeysThatWriteEachOther(t *testing.T) {
	onStage(t, func(s *stage) {
		other := map[string]string{"a": "b", "b": "a"}
		s.put("a", func(*gizmo) {})
		s.put("b", func(*gizmo) {})
		s.start(Options{}, Controller[gizmo]{Reconcile: func(ctx context.Context, g *gizmo) (Action, error) {
			o := &gizmo{}
			o.Name, o.Namespace = other[g.Name], "default"
			o.Status.Seen = g.Status.Seen + 1
			return Done, s.gizmos.Status().Apply(ctx, o)
		}})
		s.sleep(time.Minute)
		if n := len(s.ran("")); n > 200 {
			t.Errorf("%d reconciles in a minute", n)
		}
		if s.log.count("reconciled in a loop", "status.seen") == 0 {
			t.Errorf("nothing is reported:\n%s", s.log.tail(3))
		}
	})
}

// A program sets a field of its own accord, again and again, and the reconcile puts it
// back. This is a hot loop though the world moves by itself.
func TestUndoneFieldIsHeld(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("g", func(*gizmo) {})
		var told atomic.Pointer[HotLoopError]
		s.start(Options{}, Controller[gizmo]{
			Reconcile: func(ctx context.Context, g *gizmo) (Action, error) {
				g.Status.Seen = 7
				return Done, s.gizmos.Status().Ensure(ctx, g)
			},
			Failed: func(_ context.Context, _ *gizmo, err error) error {
				if hot := (*HotLoopError)(nil); errors.As(err, &hot) {
					told.Store(hot)
				}
				return nil
			},
		})
		defer s.undo()()
		s.held("g", "Gizmo default/g status.seen", "another writer changes back")
		hot := told.Load()
		if hot == nil || len(hot.fields) != 1 || !hot.fields[0].Undone || hot.fields[0].Field != "status.seen" {
			t.Errorf("Failed is told %+v", hot)
		}
		// A change that has nothing to do with the loop is not delayed.
		before := len(s.ran("g"))
		s.put("g", func(g *gizmo) { g.Spec.Size = 5 })
		s.sleep(0)
		if len(s.ran("g")) == before {
			t.Error("somebody's change of the spec waits")
		}
	})
}

// undo changes the status of g again and again until stop is called.
func (s *stage) undo() (stop func()) {
	var stopped atomic.Bool
	var undoing sync.WaitGroup
	undoing.Go(func() {
		for i := 100; !stopped.Load(); i++ {
			s.put("g", func(g *gizmo) { g.Status.Seen = i })
			time.Sleep(20 * time.Millisecond)
		}
	})
	return func() { stopped.Store(true); undoing.Wait() }
}

// A turn that is in a hot loop and also fails is reported once, with both errors.
func TestHotLoopThatFails(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("g", func(*gizmo) {})
		var told []error
		s.start(Options{}, Controller[gizmo]{
			Backoff: Backoff{Min: 1, Max: 1},
			Reconcile: func(context.Context, *gizmo) (Action, error) {
				return Done, fmt.Errorf("turn %d: %w", len(told), errBroken)
			},
			Failed: func(_ context.Context, _ *gizmo, err error) error { told = append(told, err); return nil },
		})
		s.sleep(30 * time.Second)
		hot := 0
		for _, err := range told {
			if !errors.Is(err, errBroken) {
				t.Errorf("Failed is told %v, without the error of the reconcile", err)
			}
			if errors.As(err, new(*HotLoopError)) {
				hot++
			}
		}
		if n := len(s.ran("g")); len(told) != n || hot != 1 {
			t.Errorf("Failed is called %d times after %d turns, %d times with the hot loop", len(told), n, hot)
		}
	})
}

// The search for the others in a hot loop takes none of the reconcile's time.
func TestLookingAtLoopsTakesNoTime(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("g", func(*gizmo) {})
		const timeout = 100 * time.Millisecond
		least := timeout
		stop := func() {}
		defer func() { stop() }()
		s.start(Options{}, Controller[gizmo]{
			Timeout: timeout,
			Reconcile: func(ctx context.Context, g *gizmo) (Action, error) {
				end, _ := ctx.Deadline()
				least = min(least, time.Until(end))
				if err := ctx.Err(); err != nil {
					return Done, err
				}
				g.Status.Seen = 7
				return Done, s.gizmos.Status().Ensure(ctx, g)
			},
		})
		// Only the program itself manages the fields: the report waits for another
		// manager.
		stop = s.undo()
		s.sleep(30 * time.Second)
		if s.log.count("reconciled in a loop", "status.seen") != 1 {
			t.Errorf("the hot loop is not reported:\n%s", s.log.tail(3))
		}
		if least < timeout || s.log.count(errTimeout.Error()) > 0 {
			t.Errorf("a reconcile had %s:\n%s", least, s.log.tail(3))
		}
	})
}

// Objects that others change often, regularly or not, are not held. This is so for all
// writes and any length of the reconcile.
func TestOthersChangesAreFree(t *testing.T) { othersChangesAreFree(t, 4*time.Second) }

func TestSoakOthersChangesAreFree(t *testing.T) { othersChangesAreFree(t, 20*time.Second) }

func othersChangesAreFree(t *testing.T, lasts time.Duration) {
	for _, every := range []time.Duration{time.Millisecond, 7 * time.Millisecond, 30 * time.Millisecond,
		100 * time.Millisecond, 200 * time.Millisecond, 240 * time.Millisecond, 400 * time.Millisecond} {
		for _, takes := range []time.Duration{0, 10 * time.Millisecond} {
			t.Run(fmt.Sprintf("every %s, takes %s", every, takes), func(t *testing.T) {
				onStage(t, func(s *stage) {
					s.put("g", func(*gizmo) {})
					s.start(Options{}, Controller[gizmo]{Reconcile: func(ctx context.Context, g *gizmo) (Action, error) {
						time.Sleep(takes)
						g.Status.Seen = g.Spec.Size
						return Done, s.gizmos.Status().Ensure(ctx, g)
					}})
					end := time.Now().Add(lasts)
					changes := 0
					for ; time.Now().Before(end); changes++ {
						s.put("g", func(g *gizmo) { g.Spec.Size++ })
						s.sleep(every)
					}
					s.sleep(2 * time.Second)
					if g := s.gizmo("g"); g.Status.Seen != g.Spec.Size {
						t.Errorf("the status shows %d of %d", g.Status.Seen, g.Spec.Size)
					}
					s.free("g", min(changes, int(lasts/(takes+time.Millisecond)))*7/10)
				})
			})
		}
	}
}

// A burst of changes that ends is no loop, nor are steps that end.
func TestBurstsAreFree(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("g", func(*gizmo) {})
		s.start(Options{}, Controller[gizmo]{Reconcile: func(ctx context.Context, g *gizmo) (Action, error) {
			if g.Status.Seen < g.Spec.Size {
				g.Status.Seen++
			}
			return Done, s.gizmos.Status().Ensure(ctx, g)
		}})
		for range 10 {
			s.put("g", func(g *gizmo) { g.Spec.Size += 10 })
			s.sleep(10 * time.Second)
			if g := s.gizmo("g"); g.Status.Seen != g.Spec.Size {
				t.Fatalf("ten steps are not done in ten seconds: %d of %d", g.Status.Seen, g.Spec.Size)
			}
		}
		s.free("g", 100)
	})
}

// The pauses of a loop that goes on grow, and they end with the loop.
func TestPausesGrowAndEnd(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("g", func(*gizmo) {})
		var still atomic.Bool
		s.start(Options{}, Controller[gizmo]{Reconcile: func(context.Context, *gizmo) (Action, error) {
			if still.Load() {
				return Done, nil
			}
			return After(0), nil
		}})
		s.sleep(time.Hour)
		before := len(s.ran("g"))
		s.sleep(10 * time.Minute)
		if n := len(s.ran("g")) - before; n < 19 || n > 21 {
			t.Errorf("%d reconciles in ten minutes after an hour, want one in 30 s", n)
		}
		still.Store(true)
		s.sleep(2 * time.Minute)
		before = len(s.ran("g"))
		for range 5 {
			s.put("g", func(g *gizmo) { g.Spec.Size++ })
			s.sleep(10 * time.Millisecond)
		}
		if n := len(s.ran("g")) - before; n != 5 {
			t.Errorf("%d reconciles of five changes after the loop, want 5", n)
		}
	})
}

// The text names each field once, with the field's managers.
func TestHotLoopErrorText(t *testing.T) {
	err := &HotLoopError{causes: "resync", fields: []loopField{
		{
			Kind: "Deployment", Key: named("web"), Field: "spec.replicas", Undone: true,
			Managers: []kube.Manager{{Name: "scaler", Operation: "Update", Subresource: "scale"},
				{Name: "web", Operation: "Apply"}},
		},
		{Kind: "Service", Key: named("web"), Field: "(added)"},
	}}
	want := "the object is reconciled in a loop, from now on at most once a second: " +
		"Deployment default/web spec.replicas, which another writer changes back, " +
		"managed by scaler (Update of scale) and web (Apply); Service default/web (added)"
	if err.Error() != want {
		t.Errorf("the text is %q, want %q", err.Error(), want)
	}
	if err.fields = nil; !strings.HasSuffix(err.Error(), "at most once a second: resync") {
		t.Errorf("without fields the text is %q", err.Error())
	}
}

// A hot loop names the fields that keep changing, and not a field that changed once on the
// way.
func TestHotLoopNamesFieldsThatKeepChanging(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("g", func(*gizmo) {})
		runs := 0
		s.start(Options{}, Controller[gizmo]{Reconcile: func(context.Context, *gizmo) (Action, error) {
			runs++
			s.put("g", func(g *gizmo) {
				g.Spec.Size = runs
				if runs == freeTurns {
					g.Labels = map[string]string{"once": "yes"}
				}
			})
			return Done, nil
		}})
		s.held("g", "spec.size")
		if n := s.log.count("reconciled in a loop", "metadata.labels"); n > 0 {
			t.Errorf("a field that changed once is named:\n%s", s.log.tail(3))
		}
	})
}
