package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/event"
	"github.com/pintle-go/pintle/kube"
)

// held checks that an object in a hot loop is slowed down and reported.
func (s *stage) held(name string, said ...string) {
	s.Helper()
	s.sleep(2 * time.Minute)
	before := len(s.ran(name))
	if before < hotDepth {
		s.Errorf("%s was reconciled %d times in two minutes", name, before)
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
	s.noneHot()
}

func (s *stage) noneHot() {
	s.Helper()
	if n := s.log.count("reconciled in a loop") + s.log.count("keeps undoing"); n != 0 {
		s.Errorf("a hot loop is reported that is none:\n%s", s.log.tail(3))
	}
}

// seen writes a status of a gizmo.
func (s *stage) seen(ctx context.Context, name string, seen int) error {
	g := &gizmo{Status: gizmoStatus{Seen: seen}}
	g.Name = name
	return s.gizmos.Status().Apply(ctx, g)
}

// child returns a gizmo that another one owns.
func child(of *gizmo, name string) *gizmo {
	c := new(gizmo)
	c.Name = name
	yes := true
	c.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: "example.com/v1", Kind: "Gizmo", Name: of.Name, UID: of.UID, Controller: &yes},
	}
	return c
}

// only lets the changes of one gizmo pass.
func only(name string) Predicate { return func(c kube.Change) bool { return c.Key.Name == name } }

// An object that asks for itself within a second, again and again, is slowed down, also if it
// asks by a time that has passed.
func TestOwnRequestsAreHeld(t *testing.T) {
	for name, action := range map[string]Action{
		"zero": After(0), "past": After(-time.Hour), "quick": After(time.Microsecond), "smallest": After(-1 << 63),
		"almost a second": After(999 * time.Millisecond),
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.put("g", func(*gizmo) {})
				s.start(Options{}, Controller[gizmo]{Reconcile: func(context.Context, *gizmo) (Action, error) {
					return action, nil
				}})
				s.held("g", "causes=requested")
			})
		})
	}
}

// A resync and a back-off of less than a second are slowed down too.
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

// An object that asks for a reconcile after a second, or more quickly but not without end,
// gets it. So does one whose controller reconciles no object more often than that.
func TestRequestsAreFree(t *testing.T) {
	for name, test := range map[string]struct {
		c    Controller[gizmo]
		most int // reconciles that ask
		want int
	}{
		"a second":  {Controller[gizmo]{}, 1000, 600},
		"steps":     {Controller[gizmo]{}, 90, 91},
		"paced":     {Controller[gizmo]{MinInterval: time.Second}, 1000, 600},
		"a resync":  {Controller[gizmo]{Resync: 2 * time.Second}, 0, 270},
		"a backoff": {Controller[gizmo]{Backoff: Backoff{Min: 2 * time.Second, Max: 2 * time.Second}}, 0, 300},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.put("g", func(*gizmo) {})
				runs := 0
				test.c.Reconcile = func(context.Context, *gizmo) (Action, error) {
					switch runs++; {
					case name == "a backoff":
						return Done, errBroken
					case runs > test.most:
						return Done, nil
					case name == "a second":
						return After(time.Second), nil
					}
					return After(10 * time.Millisecond), nil
				}
				s.start(Options{}, test.c)
				s.sleep(10 * time.Minute)
				s.free("g", test.want)
			})
		})
	}
}

// Two keys that write each other's objects are a loop, in one controller or in two, and
// however long a reconcile takes.
func TestKeysThatWriteEachOther(t *testing.T) {
	for _, controllers := range []int{1, 2} {
		for _, takes := range []time.Duration{
			0, 50 * time.Millisecond, 200 * time.Millisecond, 300 * time.Millisecond, time.Second,
		} {
			t.Run(fmt.Sprint(controllers, " ", takes), func(t *testing.T) {
				onStage(t, func(s *stage) {
					other := map[string]string{"a": "b", "b": "a"}
					s.put("a", func(*gizmo) {})
					s.put("b", func(*gizmo) {})
					var runs atomic.Int64
					of := func(name string, pass Predicate) Any {
						return Controller[gizmo]{Name: name, For: s.gizmos, Predicate: pass,
							Reconcile: func(ctx context.Context, g *gizmo) (Action, error) {
								if pass != nil && name != g.Name {
									return Done, nil
								}
								time.Sleep(takes)
								runs.Add(1)
								return Done, s.seen(ctx, other[g.Name], s.gizmo(other[g.Name]).Status.Seen+1)
							}}
					}
					all := []Any{of("both", nil)}
					if controllers == 2 {
						all = []Any{of("a", only("a")), of("b", only("b"))}
					}
					s.run(Options{}, all...)
					s.sleep(4 * time.Minute)
					if s.log.count("reconciled in a loop", "status.seen") == 0 {
						t.Errorf("nothing is reported:\n%s", s.log.tail(3))
					}
					before := runs.Load()
					s.sleep(time.Minute)
					if n := runs.Load() - before; n > 122 {
						t.Errorf("%d reconciles in a minute", n)
					}
				})
			})
		}
	}
}

// A reconcile that writes many children each time is in a loop like one that writes one.
func TestLoopOfManyChildren(t *testing.T) {
	for _, n := range []int{1, 17, 60} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.put("a", func(*gizmo) {})
				var runs atomic.Int64
				s.start(Options{}, Controller[gizmo]{
					Predicate: only("a"), Watches: []Source{Owned(s.gizmos)},
					Reconcile: func(ctx context.Context, g *gizmo) (Action, error) {
						if g.Name != "a" {
							return Done, nil
						}
						size := int(runs.Add(1))
						for i := range n {
							c := child(g, fmt.Sprint("child-", i))
							c.Spec.Size = size
							if _, err := s.gizmos.Ensure(ctx, c); err != nil {
								return Done, err
							}
						}
						return Done, nil
					},
				})
				s.sleep(time.Minute)
				if s.log.count("reconciled in a loop", "default/a", "spec.size") == 0 {
					t.Errorf("nothing is reported:\n%s", s.log.tail(3))
				}
				before := runs.Load()
				s.sleep(20 * time.Second)
				if n := runs.Load() - before; n > 21 {
					t.Errorf("%d reconciles in 20 seconds", n)
				}
			})
		})
	}
}

// A reconcile that deletes a child and creates the next one each time is in a loop.
func TestCreateDeleteLoop(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("a", func(*gizmo) {})
		var made atomic.Int64
		s.start(Options{}, Controller[gizmo]{
			Predicate: only("a"), Watches: []Source{Owned(s.gizmos)},
			Reconcile: func(ctx context.Context, g *gizmo) (Action, error) {
				if g.Name != "a" {
					return Done, nil
				}
				if n := made.Load(); n > 0 {
					if err := s.gizmos.Delete(ctx, fmt.Sprint("child-", n)); err != nil {
						return Done, err
					}
				}
				_, err := s.gizmos.Create(ctx, child(g, fmt.Sprint("child-", made.Add(1))))
				return Done, err
			},
		})
		s.sleep(time.Minute)
		if s.log.count("reconciled in a loop", "default/a", "Gizmo default/child-") == 0 {
			t.Errorf("nothing is reported:\n%s", s.log.tail(3))
		}
		for i := range 7 {
			before := made.Load()
			s.sleep(time.Minute)
			if n := made.Load() - before; n > 61 {
				t.Errorf("%d reconciles in minute %d", n, i+1)
			}
		}
	})
}

// Objects whose reconciles replace them, each by one of another name, are in a loop too.
func TestLoopOverNames(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("g0", func(*gizmo) {})
		var made atomic.Int64
		s.start(Options{}, Controller[gizmo]{Reconcile: func(ctx context.Context, g *gizmo) (Action, error) {
			if err := s.gizmos.Delete(ctx, g.Name); err != nil {
				return Done, err
			}
			next := new(gizmo)
			next.Name = fmt.Sprint("g", made.Add(1))
			_, err := s.gizmos.Create(ctx, next)
			return Done, err
		}})
		s.sleep(time.Minute)
		if s.log.count("reconciled in a loop", "Gizmo default/g") == 0 {
			t.Errorf("%d reconciles in a minute, and no report:\n%s", made.Load(), s.log.tail(3))
		}
	})
}

// A plan of 90 layers, each of which waits for the one below, is no loop, though nobody else
// writes anything.
func TestManyLayersAreFree(t *testing.T) {
	onStage(t, func(s *stage) {
		const layers = 90
		for i := range layers {
			s.put(fmt.Sprint("layer-", i), func(*gizmo) {})
		}
		next := func(_ context.Context, g *gizmo) []kube.Key {
			var i int
			_, _ = fmt.Sscanf(g.Name, "layer-%d", &i)
			return []kube.Key{named(fmt.Sprint("layer-", i+1))}
		}
		s.start(Options{}, Controller[gizmo]{
			Watches: []Source{Mapped(s.gizmos, next)},
			Reconcile: func(ctx context.Context, g *gizmo) (Action, error) {
				var i int
				_, _ = fmt.Sscanf(g.Name, "layer-%d", &i)
				ready := s.gizmo("layer-0").Spec.Size
				if i > 0 {
					ready = s.gizmo(fmt.Sprint("layer-", i-1)).Status.Seen
				}
				g.Status.Seen = ready
				return Done, s.gizmos.Status().Ensure(ctx, g)
			},
		})
		for size := 1; size < 5; size++ {
			s.put("layer-0", func(g *gizmo) { g.Spec.Size = size })
			s.sleep(100 * time.Millisecond)
			if g := s.gizmo(fmt.Sprint("layer-", layers-1)); g.Status.Seen != size {
				t.Errorf("the last layer shows %d of %d", g.Status.Seen, size)
			}
		}
		s.noneHot()
	})
}

// A controller that watches the objects of a loop and writes nothing is in no loop.
func TestOnlookerIsNotHot(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("hot", func(*gizmo) {})
		s.put("looks", func(*gizmo) {})
		s.start(Options{}, Controller[gizmo]{
			Watches: []Source{Mapped(s.gizmos, func(context.Context, *gizmo) []kube.Key { return []kube.Key{named("looks")} })},
			Reconcile: func(ctx context.Context, g *gizmo) (Action, error) {
				if g.Name == "hot" {
					g.Status.Seen++
				}
				return Done, s.gizmos.Status().Apply(ctx, g)
			},
		})
		s.sleep(5 * time.Minute)
		hot := s.log.count("reconciled in a loop", "object=default/hot")
		if looks := s.log.count("reconciled in a loop", "object=default/looks"); hot == 0 || looks > 0 {
			t.Errorf("the reports are:\n%s", s.log)
		}
	})
}

// A hot loop is reported by the log, an event and a metric. Failed gets only the errors of
// reconciles, and none after a success.
func TestReportOfAHotLoop(t *testing.T) {
	for _, failure := range []error{nil, errBroken} {
		t.Run(fmt.Sprint(failure), func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.put("g", func(*gizmo) {})
				events := new(playedEvents)
				client, err := kube.Config{Rest: &rest.Config{Host: "http://events", Transport: events}}.Connect()
				if err != nil {
					s.Fatal(err)
				}
				recorder := &event.Recorder{Client: client, Controller: "example.com/test", Logger: slog.New(s.log)}
				var told []error
				options := Options{Events: recorder}
				if failure != nil {
					options.Events = nil // the failures would be events too
				}
				s.start(options, Controller[gizmo]{
					Backoff: Backoff{Min: 1, Max: 1},
					Reconcile: func(context.Context, *gizmo) (Action, error) {
						return After(0), failure
					},
					Failed: func(_ context.Context, _ *gizmo, err error) error { told = append(told, err); return nil },
				})
				s.sleep(30 * time.Second)
				if n := s.log.count("reconciled in a loop"); n != 1 {
					t.Errorf("the loop is logged %d times", n)
				}
				hot := 0
				for _, e := range events.about("g") {
					if strings.HasPrefix(e, "HotLoop: the object is reconciled in a loop") {
						hot++
					}
				}
				if failure == nil && hot != 1 {
					t.Errorf("the events are %q", events.about("g"))
				}
				want := 0
				if failure != nil {
					want = len(s.ran("g"))
				}
				for _, err := range told {
					if !errors.Is(err, errBroken) {
						t.Errorf("Failed is told %v", err)
					}
				}
				if len(told) != want {
					t.Errorf("Failed is called %d times after %d reconciles", len(told), len(s.ran("g")))
				}
			})
		})
	}
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

// A loop has ended when a reconcile causes no other. Changes by others are not held then.
func TestLoopEnds(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("g", func(*gizmo) {})
		var still atomic.Bool
		s.start(Options{}, Controller[gizmo]{Reconcile: func(ctx context.Context, g *gizmo) (Action, error) {
			if still.Load() {
				return Done, nil
			}
			return Done, s.seen(ctx, g.Name, g.Status.Seen+1)
		}})
		s.sleep(time.Hour)
		if n := s.log.count("reconciled in a loop"); n < 10 || n > 13 {
			t.Errorf("the loop is reported %d times in an hour, want once in five minutes", n)
		}
		still.Store(true)
		s.sleep(2 * time.Second)
		before := len(s.ran("g"))
		for range 5 {
			s.put("g", func(g *gizmo) { g.Spec.Size++ })
			s.sleep(10 * time.Millisecond)
		}
		if n := len(s.ran("g")) - before; n != 5 {
			t.Errorf("%d reconciles of five changes after the loop, want 5", n)
		}
	})
}
