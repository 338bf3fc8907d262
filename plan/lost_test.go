package plan

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pintle-go/pintle/event"
)

// The outcome of a thing that was made and has lost its record is read from the thing before
// the deletion. If the thing does not show it, the deletion is an error: it would not know
// which thing to delete.
func TestDeletionWithALostOutcome(t *testing.T) {
	for _, shown := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t)
			things := s.secretiveThings()
			kept := make(drawer)
			things.Keep = kept
			var with []string
			remove := things.Delete
			things.Delete = func(ctx context.Context, r Ref) error {
				with = append(with, r.Outcome["id"])
				return remove(ctx, r)
			}
			describe := func(p *Plan) { s.step(p, things, "a") }
			s.turns(describe)
			time.Sleep(2 * time.Minute)
			clear(kept)
			s.shed.secretive = !shown
			p := s.plan()
			describe(p)
			_, err := p.Delete(s.ctx)
			switch {
			case shown && (err != nil || strings.Join(with, " ") != "id-1"):
				t.Errorf("deleted with the outcomes %q: %v", with, err)
			case !shown && (err == nil || !strings.Contains(err.Error(), "its outcome is lost") || len(with) > 0):
				t.Errorf("deleted with the outcomes %q: %v", with, err)
			}
			s.shed.tools = nil // as the message says
			s.remove(describe)
			s.kill()
		})
	}
}

// A thing that has not shown its outcome yet can be deleted: nothing is lost.
func TestDeletionBeforeTheOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		things := s.secretiveThings()
		things.Keep = make(drawer)
		things.Outcome = func(*tool) map[string]string { return nil }
		describe := func(p *Plan) { s.step(p, things, "a") }
		_ = s.run(describe)
		s.is("a", Waiting, "no record of its outcome")
		s.remove(describe)
		if s.shed.has("a") {
			t.Errorf("the tool is left; calls are %v", s.shed.calls)
		}
		s.kill()
	})
}

// A thing that somebody has deleted in the target is created again with an event, or is an error until it
// is there again, as the node says. A thing that the plan has deleted itself is created again without either.
func TestLostThing(t *testing.T) {
	for _, answer := range []Replacement{"", Recreate, Report} {
		t.Run(string(answer), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t)
				recorder := &event.Recorder{Client: s.gardens.Client(), Controller: "example.com/gardener"}
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- recorder.Run(ctx) }()
				monitor, things := NewMonitor(recorder, nil), s.shed.things()
				describe := func(p *Plan) {
					p.Monitor = monitor
					if n := s.step(p, things, "a"); answer != "" {
						n.OnLost(answer)
					}
				}
				s.turns(describe)
				time.Sleep(10 * time.Minute)
				s.turns(func(p *Plan) { p.Knows(things) })
				s.turns(describe)
				time.Sleep(10 * time.Minute)
				tools := slices.Clone(s.shed.tools)
				s.shed.tools = nil
				things = s.shed.things() // another process
				if answer == Report {
					for range 3 {
						if err := s.run(describe); err == nil {
							t.Error("the run succeeds")
						}
						s.is("a", Failed, "Tool a was there and is gone: restore it in the target")
						time.Sleep(10 * time.Minute)
					}
					s.shed.tools = tools
				}
				s.turns(describe)
				s.is("a", Ready, "")
				time.Sleep(time.Minute)
				s.mu.Lock()
				told := slices.Contains(s.events, "ThingLost a: Tool a was there and is gone: another one is created")
				n := 0
				for _, e := range s.events {
					if strings.HasPrefix(e, "ThingLost") {
						n++
					}
				}
				s.mu.Unlock()
				if want := answer != Report; told != want || n > 1 || (s.shed.made == 2) == want {
					t.Errorf("the events are %q; %d tools were made", s.events, s.shed.made)
				}
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
				s.kill()
			})
		})
	}
}

// A deletion that was not answered has taken effect, and the node comes back: the plan has deleted the thing itself. So
// that is no loss, and the thing is not taken for there until its poll is due.
func TestDeletedThingIsNotLost(t *testing.T) {
	for _, answer := range []Replacement{Recreate, Report} {
		t.Run(string(answer), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t)
				things := s.shed.things()
				describe := func(p *Plan) { s.step(p, things, "a").OnLost(answer) }
				s.turns(describe)
				time.Sleep(3 * time.Minute)
				s.shed.fault = func(string) fault { return fault{err: errUnanswered, executed: true} }
				if err := s.run(func(p *Plan) { p.Knows(things) }); err == nil || s.shed.has("a") {
					t.Errorf("deleted: %v; the tool is there: %t", err, s.shed.has("a"))
				}
				_ = s.run(describe) // the target does not answer yet
				s.shed.fault = nil
				time.Sleep(10 * time.Second)
				s.turns(describe)
				if s.is("a", Ready, ""); !s.shed.has("a") {
					t.Error("the node is ready without its tool")
				}
				s.kill()
			})
		})
	}
}

// An owner whose status was lost knows by the outcome that its thing was there.
func TestLostThingWithoutAStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		things := s.shed.things()
		kept := make(drawer)
		things.Keep, things.Outcome = kept, func(is *tool) map[string]string { return map[string]string{"id": is.ID} }
		describe := func(p *Plan) { s.step(p, things, "a").OnLost(Report) }
		s.turns(describe)
		for _, outcome := range kept {
			kept["a "] = outcome // as a Secret is found without the token
		}
		s.garden().Status.Status, s.shed.tools = Status{}, nil
		time.Sleep(time.Hour)
		things = s.shed.things() // another process
		things.Keep, things.Outcome = kept, func(is *tool) map[string]string { return map[string]string{"id": is.ID} }
		if err := s.run(describe); err == nil || s.shed.has("a") {
			t.Errorf("got %v; a tool was made: %t", err, s.shed.has("a"))
		}
		s.is("a", Failed, "Tool a was there and is gone")
		s.kill()
	})
}
