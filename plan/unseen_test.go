package plan

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pintle-go/pintle/controller"
)

// behind makes the observations of a target lag: they do not show a thing that was created
// less than some time ago.
func (s *scene) behind(things *Things[tool], lag time.Duration) {
	made := make(map[string]time.Time)
	observe, create, remove := things.Observe, things.Create, things.Delete
	hidden := func(name string) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return time.Since(made[name]) < lag
	}
	things.Create = func(ctx context.Context, r Ref, want *tool) (*tool, error) {
		is, err := create(ctx, r, want)
		s.mu.Lock()
		made[r.Name] = time.Now()
		s.mu.Unlock()
		return is, err
	}
	things.Observe = func(ctx context.Context, r Ref) (*tool, error) {
		is, err := observe(ctx, r)
		if hidden(r.Name) {
			return nil, err
		}
		return is, err
	}
	things.Delete = func(ctx context.Context, r Ref) error {
		if hidden(r.Name) {
			return nil // there is none
		}
		return remove(ctx, r)
	}
}

// A thing whose creation was answered, and which the target does not show for a while, is
// not created a second time. It is created again when its absence is beyond doubt.
func TestThingThatIsNotShownYet(t *testing.T) {
	for name, unique := range map[string]bool{"": false, "idempotent": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t)
				lagging := func() *Things[tool] {
					things := s.shed.things()
					things.Idempotent = unique
					return things
				}
				things := lagging()
				s.behind(things, 10*time.Second)
				observe := things.Observe
				describe := func(p *Plan) { s.add(p, "b", s.step(p, things, "a")) }
				s.must(s.run(describe))
				s.is("a", Ready, "")
				things = lagging() // another process
				things.Observe = observe
				s.must(s.run(describe))
				s.is("a", Waiting, "it was created, and the target does not show it")
				s.is("b", Blocked, "waits for a")
				begun := time.Now()
				s.turns(describe)
				s.is("b", Ready, "")
				if took := time.Since(begun); took < 9*time.Second || took > 15*time.Second {
					t.Errorf("it was found after %s", took)
				}
				if s.shed.made != 1 || s.shed.count("create") != 1 {
					t.Errorf("%d tools were made, calls %v", s.shed.made, s.shed.calls)
				}
				// Somebody deletes it long after.
				time.Sleep(10 * time.Minute)
				s.shed.tools = nil
				s.must(s.run(describe))
				if s.shed.made != 2 {
					t.Errorf("%d tools were made, want another one at once", s.shed.made)
				}
				// Somebody deletes it at once: it is created again after Settle.
				s.shed.tools = nil
				things, begun = lagging(), time.Now()
				s.turns(describe)
				if took := time.Since(begun); s.shed.made != 3 || took < 58*time.Second || took > 65*time.Second {
					t.Errorf("after %s, %d tools were made", took, s.shed.made)
				}
				s.kept()
				s.kill()
			})
		})
	}
}

// The deletion of a thing that the target does not show yet is repeated until it takes
// effect. The deletion of one that the target shows is done at once.
func TestDeletionOfAThingThatIsNotShownYet(t *testing.T) {
	for name, lag := range map[string]time.Duration{"shown": 0, "hidden": 20 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t)
				things := s.shed.things()
				s.behind(things, lag)
				describe := func(p *Plan) { s.step(p, things, "a") }
				s.must(s.run(describe))
				s.is("a", Ready, "")
				begun := time.Now()
				if lag == 0 {
					p := s.plan()
					describe(p)
					if action, err := p.Delete(s.ctx); action != controller.Done || err != nil {
						t.Errorf("the deletion waits: %v %v", action, err)
					}
				} else {
					s.remove(describe)
				}
				if took := time.Since(begun); len(s.shed.tools) > 0 || took > 30*time.Second {
					t.Errorf("after %s, left are %v", took, s.shed.tools)
				}
				s.kept()
				s.kill()
			})
		})
	}
}

// A thing that the target has shown before its deletion is gone when the target no longer shows it, even
// if it was created a moment ago.
func TestDeletionOfAThingThatTakesTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		things := s.shed.things()
		remove, observe, deleted := things.Delete, things.Observe, time.Time{}
		things.Delete = func(ctx context.Context, r Ref) error {
			if deleted.IsZero() {
				deleted = time.Now()
			}
			return remove(ctx, r)
		}
		things.Observe = func(ctx context.Context, r Ref) (*tool, error) {
			if is, err := observe(ctx, r); err != nil || deleted.IsZero() || time.Since(deleted) > 8*time.Second {
				return is, err
			}
			return &tool{Name: "a", Color: "red"}, nil
		}
		describe := func(p *Plan) { s.step(p, things, "a").UntilGone() }
		s.must(s.run(describe))
		s.is("a", Ready, "")
		begun := time.Now()
		s.remove(describe)
		if took := time.Since(begun); len(s.shed.tools) > 0 || took > 15*time.Second {
			t.Errorf("after %s, left are %v", took, s.shed.tools)
		}
		s.kept()
		s.kill()
	})
}
