package plan

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
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
