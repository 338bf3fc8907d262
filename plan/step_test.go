package plan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/ready"
)

// step adds a node for the tool of its name.
func (s *scene) step(p *Plan, things *Things[tool], name string, needs ...Need) *Node[tool] {
	return Step(p, name, things, func(Inputs) (*tool, error) { return &tool{Name: name, Color: "red"}, nil }).Needs(needs...)
}

// turns runs a plan until it wants to be run again only after a minute or later.
func (s *scene) turns(describe func(p *Plan)) {
	s.Helper()
	for range 200 {
		p := s.plan()
		describe(p)
		action, err := p.Run(s.ctx)
		if err == nil && (action == controller.Done || time.Duration(action) > time.Minute) {
			return
		}
		time.Sleep(max(time.Duration(action), time.Second))
	}
	s.Fatalf("it does not settle: %+v", s.garden().Status.Nodes)
}

// remove deletes a plan until it is done.
func (s *scene) remove(describe func(p *Plan)) {
	s.Helper()
	for range 200 {
		p := s.plan()
		describe(p)
		action, err := p.Delete(s.ctx)
		if err == nil && action == controller.Done {
			return
		}
		time.Sleep(max(time.Duration(action), time.Second))
	}
	s.Fatalf("the deletion does not end: %+v", s.garden().Status.Nodes)
}

// A thing is created once, gives its values to the nodes that need it, is observed when its
// poll is due and at no other time, is changed back, and is deleted last.
func TestStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		things := s.shed.things()
		describe := func(p *Plan) {
			a := s.step(p, things, "a")
			Object(p, "b", s.handle, func(in Inputs) (*plant, error) {
				o := named("b")
				o.Annotations = map[string]string{"needs": "a", "id": a.From(in).ID}
				return o, nil
			}).Needs(a)
		}
		s.turns(describe)
		s.is("a", Ready, "")
		if got := s.plant("b").Annotations["id"]; got != "id-1" {
			t.Errorf("the id is %q", got)
		}
		if got := fmt.Sprint(s.shed.calls); got != "[observe a create a]" {
			t.Errorf("calls are %s", got)
		}
		nodes := func() string {
			text, err := json.Marshal(s.garden().Status.Nodes)
			s.must(err)
			return string(text)
		}
		before := nodes()
		for range 20 {
			s.must(s.run(describe))
			time.Sleep(10 * time.Second)
		}
		if n := len(s.shed.calls); n != 2 || nodes() != before {
			t.Errorf("a settled plan makes %d calls, and its status is %s after %s", n-2, nodes(), before)
		}
		s.shed.find("a").Color = "blue"
		time.Sleep(3 * time.Minute)
		s.must(s.run(describe))
		if got := s.shed.find("a").Color; got != "red" {
			t.Errorf("after the poll the color is %s", got)
		}
		token := s.shed.find("a").Token
		s.shed.tools = nil // somebody deletes it
		time.Sleep(6 * time.Minute)
		s.turns(describe)
		if a := s.shed.find("a"); a == nil || a.ID != "id-2" || a.Token == token || s.plant("b").Annotations["id"] != "id-2" {
			t.Errorf("after its deletion the tool is %+v, the plant %v", a, s.plant("b").Annotations)
		}
		s.remove(describe)
		if len(s.shed.tools) > 0 || s.plant("b") != nil {
			t.Errorf("left: %v %v", s.shed.tools, s.plants())
		}
		s.kept()
		s.kill()
	})
}

// Polls are spread: things that were made at the same time are not observed at the same
// time.
func TestPollsAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		things := s.shed.things()
		keys := strings.Split("abcdefghijklmnopqrstuvwxyz", "")
		describe := func(p *Plan) {
			EachStep(p, "tool", keys, things, func(_ Inputs, key string) (*tool, error) { return &tool{Name: key}, nil })
		}
		s.turns(describe)
		times := make(map[time.Time]bool)
		for range 45 {
			before := s.shed.count("observe")
			s.must(s.run(describe))
			if n := s.shed.count("observe") - before; n > len(keys)/2 {
				t.Errorf("%d things were observed at a time", n)
			} else if n > 0 {
				times[time.Now()] = true
			}
			time.Sleep(8 * time.Second)
		}
		if len(times) < 3 || s.shed.count("observe") != 2*len(keys) {
			t.Errorf("polls at %d times, %d observations", len(times), s.shed.count("observe"))
		}
		s.kill()
	})
}

// A creation that takes effect after its call has failed makes no second thing, is not lost,
// and does not survive the deletion of the plan.
func TestLateCreation(t *testing.T) {
	for _, late := range []time.Duration{0, 20 * time.Second, 59 * time.Second} {
		for _, unique := range []bool{false, true} {
			for _, deleted := range []bool{false, true} {
				t.Run(fmt.Sprint(late, unique, deleted), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						s := newScene(t)
						s.shed.unique = unique
						failed := false
						s.shed.fault = func(call string) fault {
							if call != "create a" || failed {
								return fault{}
							}
							failed = true
							return fault{err: errUnanswered, executed: true, late: late}
						}
						things := s.shed.things()
						describe := func(p *Plan) { s.add(p, "b", s.step(p, things, "a")) }
						if err := s.run(describe); !errors.Is(err, errUnanswered) {
							t.Errorf("got %v", err)
						}
						s.is("a", Failed, "the connection was lost")
						things = s.shed.things() // another process
						if deleted {
							s.remove(describe)
						} else {
							s.turns(describe)
							s.is("b", Ready, "")
						}
						time.Sleep(5 * time.Minute)
						if want := map[bool]int{false: 1, true: 0}[deleted]; len(s.shed.tools) != want || s.shed.made > 1 && !unique {
							t.Errorf("%d tools are there, %d were made", len(s.shed.tools), s.shed.made)
						}
						s.kept()
						s.kill()
					})
				})
			}
		}
	}
}

// The status says that a creation is uncertain, and until when. Another is not begun before.
func TestUncertainCreation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.shed.fault = func(call string) fault {
			if strings.HasPrefix(call, "create") {
				return fault{err: errUnanswered}
			}
			return fault{}
		}
		things := s.shed.things()
		describe := func(p *Plan) { s.step(p, things, "a") }
		_ = s.run(describe)
		begun := time.Now()
		s.must(s.run(describe))
		s.is("a", Waiting, "its creation was not answered, and may take effect until "+
			begun.Add(91*time.Second).UTC().Format(time.RFC3339))
		for s.shed.count("create") < 2 {
			_ = s.run(describe)
			time.Sleep(time.Second)
		}
		if waited := time.Since(begun); waited < 90*time.Second || waited > 93*time.Second {
			t.Errorf("it was created again after %s", waited)
		}
		s.kill()
	})
}

// A refused creation leaves no doubt: it is repeated at once, and the deletion does not wait.
func TestRefusedCreation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.shed.fault = func(call string) fault {
			if strings.HasPrefix(call, "create") && s.shed.calls[len(s.shed.calls)-1] == call && len(s.shed.calls) < 5 {
				return fault{err: fmt.Errorf("%w: no room", ErrRefused)}
			}
			return fault{}
		}
		things := s.shed.things()
		describe := func(p *Plan) { s.step(p, things, "a") }
		for range 2 {
			if err := s.run(describe); !errors.Is(err, ErrRefused) {
				t.Errorf("got %v", err)
			}
			s.is("a", Failed, "no room")
		}
		s.must(s.run(describe))
		s.is("a", Ready, "")
		s.shed.calls = nil
		s.shed.tools = nil
		time.Sleep(10 * time.Minute)
		if err := s.run(describe); !errors.Is(err, ErrRefused) {
			t.Errorf("got %v", err)
		}
		if _, err := s.plan().Delete(s.ctx); err == nil {
			t.Error("a plan deleted things that it does not know")
		}
		p := s.plan()
		p.Knows(things)
		if action, err := p.Delete(s.ctx); action != controller.Done || err != nil {
			t.Errorf("the deletion waits: %v %v", action, err)
		}
		s.kill()
	})
}

// The things of others are neither changed nor deleted, unless they may be adopted.
func TestForeignThings(t *testing.T) {
	for _, adopt := range []bool{false, true} {
		t.Run(fmt.Sprint(adopt), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t)
				s.shed.tools = []*tool{{Name: "a", Color: "green"}}
				things := s.shed.things()
				if adopt {
					things.Adopt = func(r Ref, is *tool) bool { return r.Name == is.Name && r.Owner == "uid-eden" }
				}
				describe := func(p *Plan) { s.step(p, things, "a") }
				err := s.run(describe)
				if errors.Is(err, kube.ErrTaken) == adopt {
					t.Errorf("got %v", err)
				}
				s.remove(describe)
				if s.shed.has("a") == adopt || !adopt && s.shed.find("a").Color != "green" {
					t.Errorf("tools are %+v", s.shed.tools)
				}
				s.kill()
			})
		})
	}
}

// Things that leave the plan are deleted backwards, with the nodes of other kinds.
func TestThingsLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		things := s.shed.things()
		retain := false
		s.turns(func(p *Plan) {
			a := s.step(p, things, "a")
			b := s.add(p, "b", a)
			c := s.step(p, things, "c", b).UntilGone()
			if retain {
				c.Retain()
			}
		})
		err := s.run(func(*Plan) {})
		if err == nil || !strings.Contains(err.Error(), `delete Tool c: the plan has no Things of this kind`) {
			t.Errorf("got %v", err)
		}
		s.turns(func(p *Plan) { p.Knows(things) })
		if len(s.shed.tools) > 0 || len(s.plants()) > 0 || len(s.garden().Status.Nodes) > 0 {
			t.Errorf("left: %v %v %v", s.shed.tools, s.plants(), s.garden().Status.Nodes)
		}
		if got := s.shed.calls[len(s.shed.calls)-3:]; !slices.Equal(got, []string{"delete c", "observe c", "delete a"}) {
			t.Errorf("calls are %v", got)
		}
		s.kill()
	})
}

// An outcome is recorded before others rely on it, and comes back to each call.
func TestOutcome(t *testing.T) {
	for _, lost := range []string{"", "the process ends", "the write fails"} {
		t.Run(lost, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t)
				s.shed.secretive = true
				var things *Things[tool]
				process := func() {
					things = s.shed.things()
					things.Outcome = func(is *tool) map[string]string {
						if is.ID == "" {
							return nil
						}
						return map[string]string{"id": is.ID}
					}
					observe := things.Observe
					things.Observe = func(ctx context.Context, r Ref) (*tool, error) {
						is, err := observe(ctx, r)
						if is != nil {
							is.ID = r.Outcome["id"]
						}
						return is, err
					}
				}
				process()
				describe := func(p *Plan) {
					a := s.step(p, things, "a")
					Object(p, "b", s.handle, func(in Inputs) (*plant, error) {
						if got := s.garden().Status.Nodes[0].Thing.Outcome["id"]; got != a.From(in).ID || got == "" {
							return nil, fmt.Errorf("the outcome %q is not recorded: %q", a.From(in).ID, got)
						}
						return named("b"), nil
					}).Needs(a)
				}
				want := "id-1"
				switch lost {
				case "the process ends":
					s.killAt, s.lost = 2, true // after an observation, the intent, and the creation
					want = "id-2"
					_ = s.run(describe)
					s.killAt, s.lost = -1, false
					s.ctx, s.gardens, s.handle = s.process(t.Context())
					process()
				case "the write fails":
					s.refuse = refuseOnce(1, 403)
					if err := s.run(describe); err == nil || s.plant("b") != nil {
						t.Errorf("got %v, plant %v", err, s.plant("b"))
					}
					s.refuse = nil
				}
				s.turns(describe)
				time.Sleep(10 * time.Minute)
				s.turns(describe)
				s.is("b", Ready, "")
				if got := s.garden().Status.Nodes[0].Thing.Outcome["id"]; got != want || len(s.shed.tools) != 1 || s.shed.find("a").ID != want {
					t.Errorf("the outcome is %q, the tools are %+v", got, s.shed.tools)
				}
				s.kept()
				s.kill()
			})
		})
	}
}

// A target's limits hold for all owners together. Each gets its turn, and a node that waits
// holds up no other.
func TestTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.shed.takes = 100 * time.Millisecond
		things := s.shed.things()
		things.Target = &Target{Name: "the shed", Rate: 2, Burst: 4, Concurrency: 3}
		keys := strings.Split("abcdefghijklmnopqrst", "")
		describe := func(p *Plan) {
			EachStep(p, "tool", keys, things, func(_ Inputs, key string) (*tool, error) { return &tool{Name: key}, nil })
			s.add(p, "plant")
		}
		begun := time.Now()
		s.must(s.run(describe))
		if took := time.Since(begun); took > 3*time.Second || s.plant("plant") == nil {
			t.Errorf("the plant waits for the target: %s", took)
		}
		waits := 0
		for _, n := range s.garden().Status.Nodes {
			if n.State == Waiting && strings.Contains(n.Message, "waiting for its turn to call the shed") {
				waits++
			}
		}
		if waits < 10 {
			t.Errorf("%d of 20 nodes wait for their turn", waits)
		}
		s.turns(describe)
		calls := len(s.shed.calls)
		if took := s.shed.times[calls-1].Sub(begun); took < 17*time.Second || took > 22*time.Second {
			t.Errorf("%d calls at 2 per second took %s", calls, took)
		}
		if s.shed.top > 3 {
			t.Errorf("%d calls were under way at a time", s.shed.top)
		}
		if calls != 40 {
			t.Errorf("%d calls for 20 things", calls)
		}
		s.kill()
	})
}

// While a target is too busy to observe a thing again, the thing stays ready.
func TestPostponedPollStaysReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		things := s.shed.things()
		things.Target = new(Target)
		describe := func(p *Plan) { s.step(p, things, "a") }
		s.turns(describe)
		busy := s.shed.things()
		busy.Kind, busy.Target = "Other", things.Target
		s.shed.takes = 20 * time.Second
		time.Sleep(10 * time.Minute)
		ended := make(chan error)
		for i := range 8 {
			go func() {
				_, err := call(t.Context(), busy.Target, func(ctx context.Context) (*tool, error) {
					done, err := busy.Target.occupy()
					if err != nil {
						return nil, err
					}
					defer done()
					return busy.Observe(ctx, Ref{Name: fmt.Sprint("x", i)})
				})
				ended <- err
			}()
		}
		time.Sleep(time.Second)
		before := s.shed.count("observe a")
		s.must(s.run(describe))
		s.is("a", Ready, "")
		if s.shed.count("observe a") != before {
			t.Error("the target was called")
		}
		for range 8 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		s.kill()
	})
}

// The recorded time of a creation is not earlier than its call by more than the target's
// timeout, however long the call has to wait.
func TestIntentOfACallThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		things := s.shed.things()
		things.Target = &Target{Concurrency: 1}
		observe, create := things.Observe, things.Create
		held := 0
		ended := make(chan struct{}, 2)
		things.Observe = func(ctx context.Context, r Ref) (*tool, error) {
			is, err := observe(ctx, r)
			if held++; held <= 2 {
				go func() { // others call the target until the intent is too old
					defer func() { ended <- struct{}{} }()
					if done, err := things.Target.occupy(); err == nil {
						time.Sleep(40 * time.Second)
						done()
					}
				}()
				synctest.Wait()
			}
			return is, err
		}
		things.Create = func(ctx context.Context, r Ref, want *tool) (*tool, error) {
			s.mu.Lock()
			called := s.garden().Status.Nodes[0].Thing.Called
			s.mu.Unlock()
			if age := time.Since(called.Time); age > 30*time.Second {
				t.Errorf("the thing is created %s after the intent was recorded", age)
			}
			return create(ctx, r, want)
		}
		s.turns(func(p *Plan) { s.step(p, things, "a") })
		s.is("a", Ready, "")
		<-ended
		s.kill()
	})
}

// A call that does not end is given up, and the error says so.
func TestCallWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.shed.takes = time.Hour
		things := s.shed.things()
		things.Target = &Target{Name: "the shed", Timeout: 5 * time.Second}
		begun := time.Now()
		err := s.run(func(p *Plan) { s.step(p, things, "a"); s.add(p, "b") })
		if err == nil || !strings.Contains(err.Error(), "observe Tool a: the shed did not answer within 5s") || time.Since(begun) > 6*time.Second {
			t.Errorf("after %s: %v", time.Since(begun), err)
		}
		s.is("b", Ready, "")
		s.kill()
	})
}

// A thing that is not ready yet is observed soon, and then less and less often.
func TestThingThatIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		things := s.shed.things()
		describe := func(p *Plan) {
			s.step(p, things, "a").ReadyWhen(func(is *tool) ready.State {
				if is.Color == "red" && is.Ready {
					return ready.State{Phase: ready.Waiting, Message: "it is being painted"}
				}
				return ready.State{Phase: ready.Ready}
			}).Within(time.Minute)
		}
		s.must(s.run(describe))
		s.is("a", Waiting, "it is being painted")
		for begun := time.Now(); time.Since(begun) < 10*time.Minute; time.Sleep(time.Second) {
			s.must(s.run(describe))
		}
		if n := s.shed.count("observe"); n < 10 || n > 40 {
			t.Errorf("%d observations in 10 minutes", n)
		}
		s.is("a", Degraded, "not ready within 1m0s: it is being painted")
		s.shed.find("a").Ready = false
		s.turns(describe)
		s.is("a", Ready, "")
		s.kill()
	})
}

// Functions that panic fail their node, and nothing else.
func TestStepPanics(t *testing.T) {
	s := newScene(t)
	things := s.shed.things()
	things.Observe = func(context.Context, Ref) (*tool, error) { panic("a bug") }
	err := s.run(func(p *Plan) { s.step(p, things, "a"); s.add(p, "b") })
	if err == nil || !strings.Contains(err.Error(), `node "a": panic: a bug`) {
		t.Errorf("got %v", err)
	}
	s.is("a", Failed, "a bug")
	s.is("b", Ready, "")
}

func TestWrongSteps(t *testing.T) {
	for name, c := range map[string]struct {
		describe func(s *scene, p *Plan)
		want     string
	}{
		"no things":  {func(s *scene, p *Plan) { s.step(p, nil, "a") }, `"a" has no Things`},
		"no kind":    {func(s *scene, p *Plan) { t := s.shed.things(); t.Kind = ""; s.step(p, t, "a") }, "Kind is empty"},
		"no observe": {func(s *scene, p *Plan) { t := s.shed.things(); t.Observe = nil; s.step(p, t, "a") }, "Observe, Create and Delete are required"},
		"no differs": {func(s *scene, p *Plan) { t := s.shed.things(); t.Differs = nil; s.step(p, t, "a") }, "Update is never called without Differs"},
		"two things": {func(s *scene, p *Plan) {
			s.step(p, s.shed.things(), "a")
			s.step(p, s.shed.things(), "b")
		}, `two Things have the kind "Tool"`},
		"one thing twice": {func(s *scene, p *Plan) {
			t := s.shed.things()
			s.step(p, t, "a")
			Step(p, "b", t, func(Inputs) (*tool, error) { return &tool{Name: "a"}, nil })
		}, `"a" and "b" describe the same object, Tool a`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			err := s.run(func(p *Plan) { c.describe(s, p) })
			polls := name == "one thing twice" // the first of them has to be looked at again
			if !errors.Is(err, ErrGraph) || controller.IsTerminal(err) == polls || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// Without a finalizer nothing would delete a thing: then it is not made.
func TestStepNeedsAFinalizer(t *testing.T) {
	s := newScene(t)
	s.garden().Finalizers = nil
	err := s.run(func(p *Plan) { s.step(p, s.shed.things(), "a") })
	if err == nil || !strings.Contains(err.Error(), "give the controller a Cleanup that calls Delete") || len(s.shed.calls) > 0 {
		t.Errorf("got %v, calls %v", err, s.shed.calls)
	}
}

// A paused plan writes the condition only, calls nothing, and can be deleted.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		things := s.shed.things()
		size := 1
		describe := func(p *Plan) {
			s.step(p, things, "a")
			Object(p, "b", s.handle, func(Inputs) (*plant, error) {
				o := named("b")
				o.Spec.Size = size
				return o, nil
			})
		}
		s.turns(describe)
		s.garden().Annotations = map[string]string{Paused: "true"}
		size = 2
		s.shed.find("a").Color = "blue"
		s.notes = nil
		for range 20 {
			s.must(s.run(describe))
			time.Sleep(time.Minute)
		}
		if slices.ContainsFunc(s.notes, func(note string) bool { return note != "PATCH "+gardenPath+"/status" }) ||
			s.shed.find("a").Color != "blue" {
			t.Errorf("requests are %v, the tool is %+v", s.notes, s.shed.find("a"))
		}
		if got := s.condition("Paused"); got != "True Annotation the owner has the annotation "+Paused {
			t.Errorf("Paused is %q", got)
		}
		s.is("b", Ready, "")
		s.garden().Annotations[Paused] = "false"
		s.turns(describe)
		if s.condition("Paused") != "" || s.plant("b").Spec.Size != 2 || s.shed.find("a").Color != "red" {
			t.Errorf("Paused is %q, plant %+v, tool %+v", s.condition("Paused"), s.plant("b"), s.shed.find("a"))
		}
		s.garden().Annotations[Paused] = ""
		now := metav1.Now()
		s.garden().DeletionTimestamp = &now
		s.remove(describe)
		if len(s.shed.tools) > 0 || len(s.plants()) > 0 {
			t.Errorf("left: %v %v", s.shed.tools, s.plants())
		}
		s.kill()
	})
}
