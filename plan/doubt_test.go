package plan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/event"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/ready"
)

// drawer is a Keeper in memory: like InSecret, it loads an outcome by the recorded token.
type drawer map[string]map[string]string

func (d drawer) load(_ context.Context, _ *Plan, s NodeStatus) (kept, error) {
	outcome, has := d[s.ObjectName+" "+s.Thing.Token]
	return kept{outcome: outcome, token: s.Thing.Token, right: has}, nil
}

func (d drawer) release(context.Context, *Plan, NodeStatus) error { return nil }

func (d drawer) save(_ context.Context, _ *Plan, s NodeStatus, outcome map[string]string) error {
	d[s.ObjectName+" "+s.Thing.Token] = outcome
	return nil
}

func (d drawer) drop(_ context.Context, _ *Plan, s NodeStatus) error {
	delete(d, s.ObjectName+" "+s.Thing.Token)
	return nil
}

// secretiveThings are those of a process. The shed shows an ID once.
func (s *scene) secretiveThings() *Things[tool] {
	s.shed.secretive = true
	things := s.shed.things()
	things.Outcome = func(is *tool) map[string]string {
		if is.ID == "" {
			return nil
		}
		return map[string]string{"id": is.ID}
	}
	return things
}

// A node that only reads does not keep the objects of nodes that have left.
func TestLookupKeepsNoObjectThatLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		soil := new(plant)
		soil.Namespace, soil.Name, soil.UID, soil.ResourceVersion = "default", "soil", "uid-soil", "7"
		s.all[plantPath("soil")] = soil
		s.foreign["uid-soil"] = true
		on := true
		describe := func(p *Plan) {
			Lookup(p, "soil", s.handle, kube.Key{Name: "soil"})
			s.add(p, "a")
			s.add(p, "b").When(func(Inputs) bool { return on })
		}
		s.turns(describe)
		on = false
		for range 20 {
			s.must(s.run(describe))
			time.Sleep(10 * time.Second)
		}
		if s.plant("b") != nil {
			t.Errorf("after 200 s the plant of an absent node is still there: %+v", s.garden().Status.Nodes)
		}
		s.kill()
	})
}

// An adopted thing that does not show its outcome is not deleted.
func TestAdoptedThingIsNotDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.shed.tools = []*tool{{Name: "a", Color: "red", ID: "years of data"}}
		things := s.secretiveThings()
		things.Adopt = func(Ref, *tool) bool { return true }
		for range 5 {
			_ = s.run(func(p *Plan) { s.step(p, things, "a") })
			time.Sleep(5 * time.Second)
		}
		if a := s.shed.find("a"); a == nil || a.ID != "years of data" {
			t.Errorf("the adopted tool is %+v, calls are %v", a, s.shed.calls)
		}
		s.kill()
	})
}

// A release that sets Keep still sees the outcomes that the status has.
func TestKeepSetLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		things := s.secretiveThings()
		describe := func(p *Plan) { s.step(p, things, "a") }
		s.turns(describe)
		if s.garden().Status.Nodes[0].Thing.Outcome["id"] != "id-1" {
			t.Fatal("the status has no outcome")
		}
		things = s.secretiveThings() // the next release
		things.Keep = make(drawer)
		err := s.run(describe)
		if err != nil {
			t.Errorf("the status has %v, the run says %v", s.garden().Status.Nodes[0].Thing.Outcome, err)
		}
		s.kill()
	})
}

// The outcome of an adopted thing is kept, and comes back to each call.
func TestOutcomeOfAdoptedThing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		keep := make(drawer)
		process := func() *Things[tool] {
			things := s.secretiveThings()
			things.Keep = keep
			things.Adopt = func(Ref, *tool) bool { return true }
			return things
		}
		s.shed.tools = []*tool{{Name: "a", Color: "red", ID: "id-7"}}
		things := process()
		s.shed.secretive = false // a tool shows its ID until it is claimed
		describe := func(p *Plan) { s.step(p, things, "a") }
		s.turns(describe)
		if len(keep) != 1 {
			t.Fatalf("kept: %v", keep)
		}
		things = process()
		if err := s.run(describe); err != nil {
			t.Errorf("the keeper has %v, the run says %v", keep, err)
		}
		things = process()
		remove := things.Delete
		things.Delete = func(ctx context.Context, r Ref) error {
			if r.Outcome["id"] != "id-7" {
				t.Errorf("Delete gets the outcome %v", r.Outcome)
			}
			return remove(ctx, r)
		}
		s.remove(describe)
		s.kill()
	})
}

// The doubt about a creation outlasts a call that began late and took its time.
func TestDoubtOfALateCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		things := s.shed.things()
		things.Target = &Target{Concurrency: 1}
		observe, create := things.Observe, things.Create
		held := make(chan struct{})
		first := true
		things.Observe = func(ctx context.Context, r Ref) (*tool, error) {
			is, err := observe(ctx, r)
			if first {
				first = false
				go func() { // another owner calls the target for 28 s
					defer close(held)
					if done, err := things.Target.occupy(); err == nil {
						time.Sleep(28 * time.Second)
						done()
					}
				}()
				synctest.Wait()
			}
			return is, err
		}
		created := 0
		things.Create = func(ctx context.Context, r Ref, want *tool) (*tool, error) {
			if created++; created == 1 {
				if err := sleep(ctx, 28*time.Second); err != nil { // it gets a credential first, then sends the call
					return nil, err
				}
				s.mu.Lock()
				s.shed.fault = func(string) fault {
					s.shed.fault = nil
					return fault{err: errUnanswered, executed: true, late: 55 * time.Second} // less than Settle
				}
				s.mu.Unlock()
			}
			return create(ctx, r, want)
		}
		for range 100 {
			_ = s.run(func(p *Plan) { s.step(p, things, "a") })
			time.Sleep(2 * time.Second)
		}
		if len(s.shed.tools) != 1 || len(s.broken) > 0 {
			t.Errorf("tools are %v: %v", s.shed.names(), s.broken)
		}
		<-held
		s.broken = nil
		s.kill()
	})
}

// An error of Observe that wraps ErrRefused does not end the doubt about a creation.
func TestRefusedObservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		calls := 0
		s.shed.fault = func(call string) fault {
			switch calls++; {
			case call == "create a" && calls == 2:
				return fault{err: errUnanswered, executed: true, late: 30 * time.Second}
			case call == "observe a" && calls == 3:
				return fault{err: fmt.Errorf("too many requests: %w", ErrRefused)} // as a helper for all calls may say
			}
			return fault{}
		}
		things := s.shed.things()
		for range 60 {
			_ = s.run(func(p *Plan) { s.step(p, things, "a") })
			time.Sleep(2 * time.Second)
		}
		if len(s.shed.tools) != 1 || len(s.broken) > 0 {
			t.Errorf("tools are %v: %v", s.shed.names(), s.broken)
		}
		s.broken = nil
		s.kill()
	})
}

// If the intent cannot be recorded, Create is not called, and there is no doubt: a thing
// that somebody else makes is not ours.
func TestIntentThatWasNotStored(t *testing.T) {
	for _, foreign := range []bool{false, true} {
		t.Run(fmt.Sprint("foreign ", foreign), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t)
				things := s.shed.things()
				describe := func(p *Plan) { s.step(p, things, "a") }
				s.refuse = refuseOnce(0, 409)
				if err := s.run(describe); err == nil || s.shed.count("create") > 0 {
					t.Fatalf("got %v, calls %v", err, s.shed.calls)
				}
				s.refuse = nil
				if foreign {
					s.shed.tools = []*tool{{Name: "a", Color: "green"}}
					for range 3 {
						_ = s.run(describe)
						time.Sleep(2 * time.Second)
					}
					if s.shed.find("a").Color != "green" {
						t.Errorf("the tool of somebody else is changed: %+v", s.shed.find("a"))
					}
					s.kill()
					return
				}
				begun := time.Now()
				s.turns(describe)
				if took := time.Since(begun); took > 10*time.Second {
					t.Errorf("a creation that was never called is doubted: it took %s", took)
				}
				s.kill()
			})
		})
	}
}

// When an earlier creation can no longer take effect, a refusal of the next one leaves no
// doubt.
func TestRefusedAfterDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		created := 0
		s.shed.fault = func(call string) fault {
			if call != "create a" {
				return fault{}
			}
			if created++; created == 1 {
				return fault{err: errUnanswered}
			}
			return fault{err: fmt.Errorf("%w: the quota is exceeded", ErrRefused)}
		}
		things := s.shed.things()
		describe := func(p *Plan) { s.step(p, things, "a") }
		for created < 2 {
			_ = s.run(describe)
			time.Sleep(2 * time.Second)
		}
		// The first creation can no longer take effect, the second was refused.
		if is := s.garden().Status.Nodes[0].Thing; !is.Called.IsZero() {
			t.Errorf("the refused creation is uncertain: %+v", is)
		}
		s.shed.tools = []*tool{{Name: "a", Color: "green"}} // somebody else's
		for range 3 {
			_ = s.run(describe)
			time.Sleep(2 * time.Second)
		}
		if s.shed.find("a").Color != "green" {
			t.Errorf("the tool of somebody else is changed: %+v", s.shed.find("a"))
		}
		s.kill()
	})
}

// fastest returns the most calls within a time.
func (s *scene) fastest(within time.Duration) (most int) {
	for i, from := range s.shed.times {
		n := 0
		for _, at := range s.shed.times[i:] {
			if at.Sub(from) < within {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// All calls count: those that create things that have gone, and those that observe after a
// deletion.
func TestRateOfAllCalls(t *testing.T) {
	for _, what := range []string{"recreation", "deletion until gone"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t)
				things := s.shed.things()
				things.Target = &Target{Rate: 1, Burst: 1}
				keys := strings.Split("abcdefghijklmnopqrst", "")
				describe := func(p *Plan) {
					EachStep(p, "tool", keys, things, func(_ Inputs, key string) (*tool, error) { return &tool{Name: key}, nil }).
						Do(func(_ string, n *Node[tool]) { n.UntilGone() })
				}
				s.turns(describe)
				time.Sleep(10 * time.Minute)
				s.shed.times = nil
				if what == "recreation" {
					s.shed.tools = nil // a disaster
					for range 60 {
						_ = s.run(describe)
						time.Sleep(time.Second)
					}
				} else {
					s.remove(describe)
				}
				if n := s.fastest(10 * time.Second); n > 12 {
					t.Errorf("%d calls in 10 s at 1 per second", n)
				}
				s.kill()
			})
		})
	}
}

// Turns that were not taken in time have to be asked for again.
func TestTurnsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		things := s.shed.things()
		things.Target = &Target{Name: "the shed", Rate: 1, Burst: 1, Concurrency: 50}
		keys := strings.Split("abcdefghijklmnopqrst", "")
		describe := func(p *Plan) {
			p.Concurrency = 50
			EachStep(p, "tool", keys, things, func(_ Inputs, key string) (*tool, error) { return &tool{Name: key}, nil })
		}
		s.must(s.run(describe))
		s.garden().Annotations = map[string]string{Paused: "true"}
		for range 9 {
			time.Sleep(time.Minute)
			s.must(s.run(describe))
		}
		s.garden().Annotations = nil
		s.shed.times = nil
		s.must(s.run(describe))
		if n := s.fastest(time.Second); n > 4 {
			t.Errorf("%d calls in a second, at 1 per second and a burst of 1", n)
		}
		s.kill()
	})
}

// A busy target holds up neither the other nodes of an owner nor its run.
func TestCreateDoesNotHoldUpItsOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		things := s.shed.things()
		things.Target = &Target{Concurrency: 1}
		observe := things.Observe
		done := make(chan struct{}, 10)
		things.Observe = func(ctx context.Context, r Ref) (*tool, error) {
			is, err := observe(ctx, r)
			for range 10 { // ten other owners call a target that hangs
				go func() {
					defer func() { done <- struct{}{} }()
					if end, err := things.Target.occupy(); err == nil {
						time.Sleep(30 * time.Second)
						end()
					}
				}()
			}
			synctest.Wait()
			return is, err
		}
		begun := time.Now()
		_ = s.run(func(p *Plan) {
			s.step(p, things, "a")
			s.add(p, "c", s.add(p, "b"))
		})
		if took := time.Since(begun); took > time.Minute {
			t.Errorf("a node that waits for its call holds up its owner for %s", took)
		}
		for range 10 {
			<-done
		}
		s.kill()
	})
}

// A thing that is created in the place of a deleted one has another token.
func TestTokenOfADeletedThing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		answers := make(map[string]*tool)
		var things *Things[tool]
		process := func() {
			things = s.secretiveThings()
			things.Idempotent = true
			create := things.Create
			things.Create = func(ctx context.Context, r Ref, want *tool) (*tool, error) {
				if is := answers[r.Token]; is != nil {
					return is, nil
				}
				is, err := create(ctx, r, want)
				answers[r.Token] = s.shed.find(r.Name)
				return is, err
			}
		}
		process()
		describe := func(p *Plan) { s.step(p, things, "a") }
		s.killAt, s.lost = 2, true // after an observation, the intent, and the creation
		_ = s.run(describe)
		s.calm()
		s.ctx, s.gardens, s.handle = s.process(t.Context())
		process()
		s.turns(describe)
		is := s.is("a", Ready, "")
		if a := s.shed.find("a"); a == nil || a.ID != is.Thing.Outcome["id"] {
			t.Errorf("the node is ready with the outcome %v, the tool is %+v; calls %v", is.Thing.Outcome, a, s.shed.calls)
		}
		s.kill()
	})
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

// Without a store, too, an object of somebody else in the place of a recorded one is not
// taken over.
func TestForeignObjectInThePlaceOfARecordedOne(t *testing.T) {
	s := newScene(t)
	describe := func(p *Plan) { s.add(p, "a") }
	s.must(s.run(describe))
	other := new(plant)
	other.Namespace, other.Name, other.UID, other.ResourceVersion = "default", "a", "uid-other", "77"
	s.all[plantPath("a")] = other
	s.foreign["uid-other"] = true
	if err := s.run(describe); !errors.Is(err, kube.ErrTaken) {
		t.Errorf("got %v", err)
	}
	if s.plant("a").UID != types.UID("uid-other") || len(s.broken) > 0 {
		t.Errorf("broken: %v", s.broken)
	}
	s.broken = nil
}

// The object of a node that only reads from then on has left the plan.
func TestObjectThatBecomesALookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.turns(func(p *Plan) { s.add(p, "a") })
		describe := func(p *Plan) { Lookup(p, "a", s.handle, kube.Key{Name: "other"}) }
		other := new(plant)
		other.Namespace, other.Name, other.UID, other.ResourceVersion = "default", "other", "uid-other", "77"
		s.all[plantPath("other")] = other
		for range 20 {
			s.must(s.run(describe))
			time.Sleep(10 * time.Second)
		}
		// No node wants the plant a.
		if got := s.plants(); !slices.Equal(got, []string{"other"}) {
			t.Errorf("plants are %v, nodes %+v", got, s.garden().Status.Nodes)
		}
		s.kill()
	})
}

// The outcome of a retained thing is not recorded for another thing of its name.
func TestOutcomeOfAFormerThing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		things := s.secretiveThings()
		s.shed.secretive = false
		things.Adopt = func(Ref, *tool) bool { return true }
		on := true
		describe := func(p *Plan) { s.step(p, things, "a").Retain().When(func(Inputs) bool { return on }) }
		s.turns(describe)
		on = false
		s.turns(describe)
		s.shed.tools = []*tool{{Name: "a", Color: "red", ID: "id-9"}} // people have made another one
		on = true
		s.turns(describe)
		if is := s.is("a", Ready, ""); is.Thing.Outcome["id"] != "id-9" {
			t.Errorf("the tool shows id-9, its outcome is %v", is.Thing.Outcome)
		}
		s.kill()
	})
}

// A node that fails, waits, and is ready again has recovered.
func TestRecoveryThatTakesTime(t *testing.T) {
	s := newScene(t)
	recorder := &event.Recorder{Client: s.gardens.Client(), Controller: "example.com/gardener"}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- recorder.Run(ctx) }()
	monitor := NewMonitor(recorder, nil)
	for _, state := range []State{Ready, Failed, Waiting, Ready} {
		_ = s.run(func(p *Plan) {
			p.Monitor = monitor
			Object(p, "a", s.handle, func(Inputs) (*plant, error) {
				if state == Failed {
					return nil, errors.New("no room")
				}
				return named("a"), nil
			}).ReadyWhen(func(*plant) ready.State {
				if state == Waiting {
					return ready.State{Phase: ready.Waiting}
				}
				return ready.State{Phase: ready.Ready}
			})
		})
		s.is("a", state, "")
	}
	var got []string
	for begun := time.Now(); !slices.Contains(got, "NodeRecovered a is ready again") && time.Since(begun) < 2*time.Second; time.Sleep(10 * time.Millisecond) {
		s.mu.Lock()
		got = slices.Clone(s.events)
		s.mu.Unlock()
	}
	if !slices.Contains(got, "NodeRecovered a is ready again") {
		t.Errorf("events are %q", got)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A mistake in the description does not keep the owner from being deleted.
func TestWrongPlanCanBeDeleted(t *testing.T) {
	s := newScene(t)
	s.must(s.run(func(p *Plan) { s.add(p, "a") }))
	p := s.plan()
	s.add(p, "a", nil)
	if _, err := p.Delete(s.ctx); err != nil || s.plant("a") != nil {
		t.Errorf("got %v, plants %v", err, s.plants())
	}
}

// park is an owner without a namespace.
type park struct {
	kube.Object
	Status Status `json:"status,omitzero"`
}

func (park) GVK() kube.GVK { return kube.GVK{Group: "example.com", Version: "v1", Kind: "Park"} }

// parkland is a world with a park.
type parkland struct {
	*world
	park park
}

func (l *parkland) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case r.URL.Path == "/apis/example.com/v1":
		return respond(200, map[string]any{"kind": "APIResourceList", "resources": []any{
			map[string]any{"name": "parks", "kind": "Park", "namespaced": false},
			map[string]any{"name": "plants", "kind": "Plant", "namespaced": true},
		}})
	case strings.HasSuffix(r.URL.Path, "/parks/hyde/status"):
		if err := json.NewDecoder(r.Body).Decode(&l.park); err != nil {
			return nil, err
		}
		return respond(200, l.park)
	}
	return l.world.RoundTrip(r)
}

// The child of a cluster-scoped owner is in the namespace of its handle, and is deleted
// there.
func TestNamespaceOfTheHandle(t *testing.T) {
	s := newScene(t)
	land := &parkland{world: s.world}
	land.park.APIVersion, land.park.Kind = "example.com/v1", "Park"
	land.park.Name, land.park.UID, land.park.Finalizers = "hyde", "uid-hyde", []string{"example.com/park"}
	client, err := kube.Config{Rest: &rest.Config{Host: "http://world", Transport: land}, Namespace: "default"}.Connect()
	s.must(err)
	parks, plants := kube.For[park](client), kube.For[plant](client).In("default")
	for _, on := range []bool{true, false} {
		is := land.park
		is.ManagedFields = nil
		p := New(parks, &is, &is.Status)
		Object(p, "a", plants, func(Inputs) (*plant, error) { return named("a"), nil }).When(func(Inputs) bool { return on })
		if _, err := p.Run(t.Context()); err != nil {
			t.Errorf("on %v: %v", on, err)
		}
	}
	if s.plant("a") != nil {
		t.Errorf("the plant is left: %+v", land.park.Status.Nodes)
	}
}

// The condition Ready counts ready nodes, without absent ones.
func TestCountOfReadyNodes(t *testing.T) {
	s := newScene(t)
	s.must(s.run(func(p *Plan) {
		s.add(p, "a")
		s.add(p, "b").When(func(Inputs) bool { return false })
	}))
	if got := s.condition("Ready"); got != "True Ready 1 nodes are ready" {
		t.Errorf("one node is ready, one is absent: %q, column %s", got, s.garden().Status.ReadyNodes)
	}
}

// A thing whose outcome comes later is waited for.
func TestThingWithoutAnOutcomeYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		things := s.shed.things()
		things.Idempotent, s.shed.unique = true, true
		things.Outcome = func(*tool) map[string]string { return nil } // its address is known in some minutes
		failed := 0
		for begun := time.Now(); time.Since(begun) < 10*time.Minute; {
			p := s.plan()
			s.step(p, things, "a")
			action, err := p.Run(s.ctx)
			if err != nil {
				failed++
			}
			time.Sleep(max(time.Duration(action), time.Second))
		}
		if n := s.shed.count("delete a"); n > 0 {
			t.Errorf("in 10 minutes the tool was created %d times and deleted %d times, with %d errors", s.shed.made, n, failed)
		}
		s.kill()
	})
}

// Things stay ready while their target is too busy to observe them, also as others are
// added.
func TestSightsOfABusyTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		things := s.shed.things()
		things.Poll = 30 * time.Second
		things.Target = &Target{Name: "the shed", Rate: 1}
		var keys []string
		for i := range 127 {
			keys = append(keys, fmt.Sprint("t", i))
		}
		describe := func(p *Plan) {
			EachStep(p, "tool", keys, things, func(_ Inputs, key string) (*tool, error) { return &tool{Name: key}, nil })
		}
		lost := func() (lost []string) {
			for _, n := range s.garden().Status.Nodes {
				if n.State != Ready && n.Name != "tool/another" {
					lost = append(lost, n.Name)
				}
			}
			return lost
		}
		for range 600 {
			_ = s.run(describe)
			time.Sleep(time.Second)
		}
		if all := lost(); len(all) > 0 {
			t.Fatalf("%d nodes are not ready at first", len(all))
		}
		keys = append(keys, "another")
		for range 150 {
			_ = s.run(describe)
			if all := lost(); len(all) > 0 {
				t.Errorf("as a thing was added, %d ready nodes are not ready any more: %+v", len(all), s.is(all[0], Waiting, ""))
				break
			}
			time.Sleep(time.Second)
		}
		s.kill()
	})
}

// The outcome of a thing is recorded before the rule of its readiness is asked, which may
// panic.
func TestReadyWhenPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		things := s.secretiveThings()
		mended := false
		describe := func(p *Plan) {
			s.step(p, things, "a").ReadyWhen(func(*tool) ready.State {
				if !mended {
					panic("a bug")
				}
				return ready.State{Phase: ready.Ready}
			})
		}
		for range 5 {
			_ = s.run(describe)
			time.Sleep(time.Minute)
		}
		if is := s.garden().Status.Nodes[0].Thing; !is.Made || is.Outcome["id"] != "id-1" {
			t.Errorf("5 minutes after its creation the tool is recorded as %+v", is)
		}
		mended, things = true, s.secretiveThings()
		s.turns(describe)
		if a := s.shed.find("a"); a.ID != "id-1" {
			t.Errorf("the tool was deleted and created again: %+v", a)
		}
		s.kill()
	})
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

// The finalizers of Kubernetes itself do not count as those of a Cleanup.
func TestFinalizersOfKubernetes(t *testing.T) {
	s := newScene(t)
	s.garden().Finalizers = []string{"foregroundDeletion"}
	if err := s.run(func(p *Plan) { s.step(p, s.shed.things(), "a") }); err == nil {
		t.Errorf("no Cleanup will run, but the tool was made: %v", s.shed.names())
	}
}
