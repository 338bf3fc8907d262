package plan

import (
	"fmt"
	"net/http"
	"testing"
)

// The witness of a former owner of the name goes, also if nobody has deleted it with its owner.
func TestWitnessOfAFormerOwner(t *testing.T) {
	for _, how := range []string{"deleted", "lost", "orphaned by hand"} {
		t.Run(how, func(t *testing.T) {
			s := newScene(t)
			describe := func(p *Plan) { p.Marks = true; s.add(p, "a") }
			s.must(s.run(describe))
			switch how {
			case "deleted":
				s.remove(describe)
			case "orphaned by hand":
				s.orphan()
			}
			s.garden().UID, s.garden().Status.Status = "uid-next", Status{}
			for range 2 {
				s.must(s.run(describe))
			}
			w := s.garden().Status.Witness
			at := s.plan().witness()
			o := s.all["/api/v1/namespaces/default/secrets/"+at.ObjectName]
			if w == "" || o == nil || o.GetUID() != w || len(o.GetOwnerReferences()) != 1 || o.GetOwnerReferences()[0].UID != "uid-next" {
				t.Errorf("the witness %q is %+v", w, o)
			}
		})
	}
}

// With a witness, the deletion of a plan with Marks asks for it alone.
func TestWitnessIsAskedFirst(t *testing.T) {
	s := newScene(t)
	describe := func(p *Plan) {
		p.Marks = true
		for i := range 20 {
			s.add(p, fmt.Sprint("p", i))
		}
	}
	s.must(s.run(describe))
	s.notes = nil
	s.remove(describe)
	if n := s.wrote(http.MethodGet); n > 21 {
		t.Errorf("%d reads for 20 objects", n)
	}
}
