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

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/internal/finalizers"
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

// A thing says when it must be observed again, if that is before its poll.
func TestNextLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for next, want := range map[time.Duration]time.Duration{
			0: 5 * time.Minute, time.Second: 2 * time.Second, 20 * time.Second: 20 * time.Second, time.Hour: 5 * time.Minute,
		} {
			s := newScene(t)
			things := s.shed.things()
			things.Next = func(*tool) time.Duration { return next }
			describe := func(p *Plan) { s.step(p, things, "a") }
			look := func() time.Time {
				for looked := s.shed.count("observe"); s.shed.count("observe") == looked; {
					time.Sleep(want / 50)
					s.must(s.run(describe))
				}
				return time.Now()
			}
			s.must(s.run(describe))
			look() // of what was made
			begun := look()
			if after := look().Sub(begun); after < want || after > want+want/5 {
				t.Errorf("with %s, it is observed again after %s", next, after)
			}
			s.kill()
		}
	})
}

// A thing that differs from the wanted one after its creation is changed before others
// rely on it.
func TestCreatedThingThatDiffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		things := s.shed.things()
		create := things.Create
		things.Create = func(ctx context.Context, r Ref, want *tool) (*tool, error) {
			return create(ctx, r, &tool{Name: want.Name}) // as of a bucket whose settings are other calls
		}
		s.must(s.run(func(p *Plan) { s.add(p, "b", s.step(p, things, "a")) }))
		if a := s.shed.find("a"); a.Color != "red" && s.plant("b") != nil {
			t.Errorf("the node is %+v, b was made, the tool is %+v", s.is("a", Ready, ""), a)
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

// Of two owners in a process that create the same thing at the same time, one gets it.
func TestTwoOwnersOfAThing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newScene(t), newScene(t)
		b.garden().UID = "uid-other"
		things := a.shed.things()
		things.Idempotent = true
		create := things.Create
		first := true
		of := func(s *scene) func(p *Plan) { return func(p *Plan) { s.step(p, things, "a") } }
		things.Create = func(ctx context.Context, r Ref, want *tool) (*tool, error) {
			if first {
				first = false
				_ = b.run(of(b)) // at the same time
			}
			if is := a.shed.find(r.Name); is != nil {
				return is, nil // the target has one thing of a name: PUT
			}
			return create(ctx, r, want)
		}
		_ = a.run(of(a))
		if a.garden().Status.Nodes[0].State == Ready && b.garden().Status.Nodes[0].State == Ready {
			t.Error("two owners have the same thing")
		}
		b.remove(of(b))
		if !a.shed.has("a") {
			t.Error("the thing of an owner was deleted with another owner")
		}
		a.kill()
		b.kill()
	})
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
		time.Sleep(2 * time.Minute) // the target shows the tools
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
	elsewhere, err := kube.Config{Rest: &rest.Config{Host: "https://elsewhere.example"}}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer elsewhere.Close()
	for name, c := range map[string]struct {
		describe func(s *scene, p *Plan)
		want     string
	}{
		"another cluster": {func(_ *scene, p *Plan) {
			Object(p, "a", kube.For[corev1.ConfigMap](elsewhere), func(Inputs) (*corev1.ConfigMap, error) { return nil, nil })
		}, `the object of "a" would be in another cluster`},
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
			if !errors.Is(err, errGraph) || controller.IsTerminal(err) == polls || !strings.Contains(err.Error(), c.want) {
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

// The finalizers of Kubernetes itself do not count as those of a Cleanup.
func TestFinalizersOfKubernetes(t *testing.T) {
	s := newScene(t)
	s.garden().Finalizers = []string{"foregroundDeletion"}
	if err := s.run(func(p *Plan) { s.step(p, s.shed.things(), "a") }); err == nil {
		t.Errorf("no Cleanup will run, but the tool was made: %v", s.shed.names())
	}
}

// Another program's finalizer does not say that the controller cleans up.
func TestFinalizersOfOthers(t *testing.T) {
	const theirs, ours = "backup.example.com/saved", "garden.example.com/cleanup"
	for name, c := range map[string]struct {
		own  string // of the controller, "" if it has no Cleanup
		has  []string
		made bool
	}{
		"theirs alone":             {ours, []string{theirs}, false},
		"both":                     {ours, []string{theirs, ours}, true},
		"a controller without":     {"", []string{theirs, ours}, false},
		"one that was a Cleanup's": {"", []string{ours}, false},
	} {
		s := newScene(t)
		s.garden().Finalizers = c.has
		s.ctx = finalizers.With(s.ctx, c.own)
		if err := s.run(func(p *Plan) { s.step(p, s.shed.things(), "a") }); (err == nil) != c.made {
			t.Errorf("%s: %v, tools %v", name, err, s.shed.names())
		}
	}
}

// A mistake in the description of one node does not keep the others from being looked at
// again.
func TestTerminalErrorStopsNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		things := s.shed.things()
		describe := func(p *Plan) {
			s.step(p, things, "a").ReadyWhen(func(is *tool) ready.State {
				return ready.State{Phase: ready.Waiting, Message: "it is being painted"} // the outside sends no events
			})
			b := s.add(p, "b")
			Object(p, "wrong", s.handle, func(in Inputs) (*plant, error) { return named(b.From(in).Name), nil })
		}
		p := s.plan()
		describe(p)
		action, err := p.Run(s.ctx)
		s.is("a", Waiting, "it is being painted")
		if controller.IsTerminal(err) && action == controller.Done {
			t.Errorf("a waits for something that nobody will look at: %v %v", action, err)
		}
		s.kill()
	})
}
