package plan

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// An object that cannot be made beside the one that it replaces waits in a circle: the message names it, and
// DeleteBeforeCreate breaks it.
func TestCircleOfAReplacement(t *testing.T) {
	s := newScene(t)
	things := s.shed.things()
	s.must(s.run(func(p *Plan) { s.step(p, things, "app", s.step(p, things, "middle", s.add(p, "old"))) }))
	s.refuse = func(r *http.Request) int {
		if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/plants/new") && s.plant("old") != nil {
			return 403 // both want one node port
		}
		return 0
	}
	first := false
	describe := func(p *Plan) {
		n := s.add(p, "new")
		if first {
			n.DeleteBeforeCreate()
		}
		s.step(p, things, "app", s.step(p, things, "middle", n))
	}
	for range 3 {
		if s.run(describe) == nil {
			t.Error("the run succeeds")
		}
		s.is("new", Failed, `; the Plant of "old", which has left the plan, stays until others are changed that wait for this node`)
		s.is("old", Deleting, "waiting for middle, until new is ready")
	}
	if text := s.condition("Degraded"); strings.Count(text, "DeleteBeforeCreate") != 1 {
		t.Errorf("the condition is %s", text)
	}
	first = true
	_ = s.run(describe)
	s.must(s.run(describe))
	if got := s.plants(); !slices.Equal(got, []string{"new"}) {
		t.Errorf("there are the plants %q", got)
	}
	s.is("app", Ready, "")
	s.must(s.run(describe))
	s.kept()
}

// Objects that wait for one node are told in one order, so that its message stays and the status is not written
// again.
func TestCircleOfManyObjects(t *testing.T) {
	s := newScene(t)
	things := s.shed.things()
	s.must(s.run(func(p *Plan) {
		s.step(p, things, "app", s.step(p, things, "middle", s.add(p, "old-1"), s.add(p, "old-2"), s.add(p, "old-3")))
	}))
	s.refuse = func(r *http.Request) int {
		if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/plants/new") {
			return 403
		}
		return 0
	}
	messages := make(map[string]bool)
	for range 20 {
		_ = s.run(func(p *Plan) { s.step(p, things, "app", s.step(p, things, "middle", s.add(p, "new"))) })
		messages[s.is("new", Failed, "DeleteBeforeCreate").Message] = true
	}
	if len(messages) != 1 {
		t.Errorf("the message changes: %v", messages)
	}
}
