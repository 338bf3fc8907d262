package plan

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
