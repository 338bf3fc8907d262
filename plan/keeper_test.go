package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

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

// A node reads the outcome of a thing that it needs, wherever it is kept. It cannot read
// that of a node which it does not need, nor the Secret of an outcome that is in none.
func TestReadOutcome(t *testing.T) {
	for name, c := range map[string]struct {
		keep  Keeper
		needs bool
		want  string // the error
	}{
		"in the status": {nil, true, ""},
		"in a keeper":   {make(drawer), true, ""},
		"not needed":    {nil, false, `"b" reads "a", which it does not need`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t)
				for range 2 { // the second process finds the thing
					things := s.secretiveThings()
					things.Keep = c.keep
					var got []string
					err := s.run(func(p *Plan) {
						a := s.step(p, things, "a")
						b := Object(p, "b", s.handle, func(in Inputs) (*plant, error) {
							got = append(got, a.Outcome(in)["id"])
							return named("b"), nil
						})
						if c.needs {
							b.Needs(a)
						}
					})
					switch {
					case c.want == "" && (err != nil || !slices.Equal(got, []string{"id-1"})):
						t.Errorf("b reads %q: %v", got, err)
					case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
						t.Errorf("got %v", err)
					}
				}
				s.kill()
			})
		})
	}
}

func TestOutcomeSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		things := s.secretiveThings()
		err := s.run(func(p *Plan) {
			a := s.step(p, things, "a")
			Object(p, "b", s.handle, func(in Inputs) (*plant, error) { return named(a.OutcomeSecret(in)), nil }).Needs(a)
		})
		if !errors.Is(err, errGraph) || !strings.Contains(err.Error(), `"b" reads the Secret of "a", whose Things do not keep`) {
			t.Errorf("got %v", err)
		}
		s.kill()
	})
}

// The outcome of a retained thing is left in the namespace of the handle if the owner has none.
func TestReleaseForAClusterScopedOwner(t *testing.T) {
	s := newScene(t)
	land := &parkland{world: s.world}
	land.park.APIVersion, land.park.Kind = "example.com/v1", "Park"
	land.park.Name, land.park.UID, land.park.Finalizers = "hyde", "uid-hyde", []string{"example.com/park"}
	client, err := kube.Config{Rest: &rest.Config{Host: "http://world", Transport: land}}.Connect()
	s.must(err)
	keep := inSecret{kube.For[corev1.Secret](client).In("default")}
	is := land.park
	p := New(kube.For[park](client), &is, &is.Status)
	if _, key := keep.of(p, NodeStatus{Kind: "Tool", ObjectName: "a"}); key.Namespace != "default" {
		t.Errorf("the Secret would be released in the namespace %q", key.Namespace)
	}
	if err := keep.release(t.Context(), p, NodeStatus{Kind: "Tool", ObjectName: "a"}); errors.Is(err, kube.ErrScope) {
		t.Errorf("got %v", err)
	}
}
