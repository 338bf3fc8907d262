package plan

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/controller"
)

// succeed puts another owner of the same name in the place of the garden.
func (s *scene) succeed(uid types.UID) {
	g := s.read()
	g.UID = uid
	g.Status.Status = Status{}
	s.all[gardenPath] = g
}

// An owner whose creation was refused, or could not be recorded, does not keep the name
// from other owners.
func TestNameOfACreationThatWasNotMade(t *testing.T) {
	refused := func(s *scene) {
		s.shed.fault = func(call string) fault {
			if call == "create a" {
				return fault{err: fmt.Errorf("%w: no room", ErrRefused)}
			}
			return fault{}
		}
	}
	unrecorded := func(s *scene) { s.refuse = refuseOnce(0, 409) }
	describe := func(s *scene, things *Things[tool]) func(p *Plan) { return func(p *Plan) { s.step(p, things, "a") } }
	for name, c := range map[string]struct {
		trouble func(s *scene)
		leave   func(s *scene, things *Things[tool])
	}{
		"refused, and the owner is deleted": {refused, func(s *scene, things *Things[tool]) {
			p := s.plan()
			describe(s, things)(p)
			if action, err := p.Delete(s.ctx); action != controller.Done || err != nil {
				s.Errorf("the deletion waits: %v %v", action, err)
			}
		}},
		"refused, and the node leaves": {refused, func(s *scene, things *Things[tool]) {
			s.must(s.run(func(p *Plan) { p.Knows(things) }))
		}},
		"refused":      {refused, func(*scene, *Things[tool]) {}},
		"not recorded": {unrecorded, func(*scene, *Things[tool]) {}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t)
				things := s.shed.things()
				c.trouble(s)
				if err := s.run(describe(s, things)); err == nil {
					t.Error("the creation was not refused")
				}
				s.calm()
				c.leave(s, things)
				s.succeed("uid-later")
				s.must(s.run(describe(s, things)))
				s.is("a", Ready, "")
				s.kill()
			})
		})
	}
}

// An owner whose creation was not answered keeps the name, also if another creation was
// refused since.
func TestNameOfAnUncertainCreation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		things := s.shed.things()
		things.Idempotent = true
		creations := 0
		s.shed.fault = func(call string) fault {
			if call != "create a" {
				return fault{}
			}
			if creations++; creations == 1 {
				return fault{err: errUnanswered}
			}
			return fault{err: fmt.Errorf("%w: no room", ErrRefused)}
		}
		describe := func(p *Plan) { s.step(p, things, "a") }
		for _, want := range []error{errUnanswered, ErrRefused} {
			if err := s.run(describe); !errors.Is(err, want) {
				t.Errorf("got %v", err)
			}
		}
		s.calm()
		s.succeed("uid-later")
		if err := s.run(describe); err == nil || s.shed.has("a") {
			t.Errorf("another owner creates it: %v", err)
		}
		s.kill()
	})
}

// A process leads again after another one has deleted the thing and made another one. It does not
// believe what it saw of the former thing.
func TestThingOfAnotherLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		ours, theirs := s.shed.things(), s.shed.things()
		describe := func(things *Things[tool]) func(p *Plan) {
			return func(p *Plan) {
				a := s.step(p, things, "a")
				Object(p, "b", s.handle, func(in Inputs) (*plant, error) {
					o := named("b")
					o.Annotations = map[string]string{"needs": "a", "id": a.From(in).ID}
					return o, nil
				}).Needs(a)
			}
		}
		s.turns(describe(ours))
		s.must(s.run(func(p *Plan) { p.Knows(theirs) }))
		if len(s.shed.tools) != 0 {
			t.Fatalf("the other leader has left %v", s.shed.names())
		}
		s.turns(describe(theirs))
		s.turns(describe(ours))
		a := s.shed.find("a")
		if got := s.plant("b").Annotations["id"]; a == nil || a.ID == "id-1" || got != a.ID {
			t.Errorf("the plant has read %q of %+v", got, a)
		}
		if got := s.garden().Status.Nodes[0].Thing.Token; a == nil || got != a.Token {
			t.Errorf("the token on record is %q, of %+v", got, a)
		}
		s.kill()
	})
}
