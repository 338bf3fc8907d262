package plan

import (
	"testing"
	"time"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
)

// A node that only reads waits for its object, and gives it to others.
func TestLookup(t *testing.T) {
	s := newScene(t)
	describe := func(p *Plan) {
		found := Lookup(p, "found", s.handle, kube.Key{Name: "theirs"})
		Object(p, "a", s.handle, func(in Inputs) (*plant, error) {
			o := named("a")
			o.Spec.Size = found.From(in).Spec.Size
			return o, nil
		}).Needs(found)
	}
	s.must(s.run(describe))
	s.is("found", Waiting, "it does not exist")
	s.put("theirs", func(o *plant) { o.Spec.Size = 7; s.foreign[o.UID] = true })
	s.must(s.run(describe))
	if o := s.plant("a"); o == nil || o.Spec.Size != 7 {
		t.Errorf("plant is %+v", o)
	}
	if _, err := s.plan().Delete(s.ctx); err != nil || s.plant("theirs") == nil || s.plant("a") != nil {
		t.Errorf("plants %v, %v", s.plants(), err)
	}
	s.kept()
}

// A plan asks for another run while it waits for an object that it only reads, and for none when the object
// is ready: its changes are seen by a watch, or not at all.
func TestLookupAsksForRunsWhileItWaits(t *testing.T) {
	s := newScene(t)
	run := func() controller.Action {
		t.Helper()
		p := s.plan()
		Lookup(p, "found", s.handle, kube.Key{Name: "theirs"})
		action, err := p.Run(s.ctx)
		s.must(err)
		return action
	}
	if a := run(); a < controller.After(lookAgain) || a > controller.After(lookAgain+lookAgain/10+1) {
		t.Errorf("while the object is missing, the plan is run again after %s", time.Duration(a))
	}
	s.put("theirs", func(o *plant) { s.foreign[o.UID] = true })
	run() // the status is written
	if a := run(); a != controller.Done {
		t.Errorf("when the object is ready, the plan is run again after %s", time.Duration(a))
	}
	s.put("theirs", func(o *plant) { o.Spec.Size = 9 })
	if a := run(); a != controller.Done {
		t.Errorf("when the object has changed, the plan is run again after %s", time.Duration(a))
	}
	s.kept()
}

// A node that only reads wants no object, so it does not keep those of nodes that have left,
// even while its own object is missing.
func TestLookupKeepsNothing(t *testing.T) {
	for _, there := range []bool{false, true} {
		s := newScene(t)
		if there {
			s.put("theirs", func(o *plant) { s.foreign[o.UID] = true })
		}
		s.grow(all)
		read := func(p *Plan) { Lookup(p, "found", s.handle, kube.Key{Name: "theirs"}) }
		s.must(s.run(func(p *Plan) { read(p); s.add(p, "a") }))
		s.must(s.run(read))
		if s.plant("a") != nil {
			t.Errorf("the plant is kept: %+v", s.garden().Status.Nodes)
		}
		s.kept()
	}
}
