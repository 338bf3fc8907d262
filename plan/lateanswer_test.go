package plan

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"
)

// ringed is a thing whose parts point to one another, as those of generated types do.
type ringed struct {
	Name     string
	Parent   *ringed
	Children []*ringed
}

// The texts of a thing are looked at once, however its parts point to one another.
func TestPartsThatPointToOneAnother(t *testing.T) {
	root := &ringed{Name: "r"}
	for i := range 100 {
		root.Children = append(root.Children, &ringed{Name: fmt.Sprint(i), Parent: root})
	}
	if mentions(root, "TOKEN") || !mentions(root, "99") {
		t.Error("wrong texts")
	}
	no, yes := false, true
	type box struct {
		Name   string
		Public *bool
		Zones  []bool
	}
	for _, is := range []*box{{"a", &yes, []bool{false}}, {"a", &no, []bool{true}}} {
		sent := &box{"a", &no, []bool{false}}
		if _, same := asSent(reflect.ValueOf(sent), reflect.ValueOf(is), "a", false, maxDepth); same {
			t.Errorf("%+v was sent, and %+v counts as that", sent, is)
		}
	}
}

// slow returns things of a target that makes one as late after a hanging creation as Settle allows, and whose
// observations take three seconds.
func (s *scene) slow() *Things[tool] {
	things := s.shed.things()
	create, observe, first := things.Create, things.Observe, true
	things.Create = func(ctx context.Context, r Ref, want *tool) (*tool, error) {
		if !first {
			return create(ctx, r, want)
		}
		first = false
		<-ctx.Done()
		time.AfterFunc(59500*time.Millisecond, func() { _, _ = create(s.ctx, r, want) })
		return nil, ctx.Err()
	}
	things.Observe = func(ctx context.Context, r Ref) (*tool, error) {
		is, err := observe(ctx, r)
		time.Sleep(3 * time.Second) // the answer is on its way
		return is, err
	}
	return things
}

// What an observation says holds for the time at which it began: a creation may take effect before its answer.
func TestObservationAtTheEndOfTheDoubt(t *testing.T) {
	for _, name := range []string{"a run", "a deletion"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t)
				things := s.slow()
				describe := func(p *Plan) { s.step(p, things, "a") }
				_ = s.run(describe)
				time.Sleep(time.Until(things.doubtUntil(s.garden().Status.Nodes[0].Thing)) - 1500*time.Millisecond)
				if name == "a run" {
					for range 5 {
						s.must(s.run(describe))
						time.Sleep(time.Second)
					}
					s.kept() // no second one was made
				} else {
					for range 5 {
						p := s.plan()
						describe(p)
						_, err := p.Delete(s.ctx)
						s.must(err)
						time.Sleep(10 * time.Second)
					}
					if s.shed.has("a") {
						t.Errorf("the tool is left: %v", s.shed.calls)
					}
				}
				s.kill()
			})
		})
	}
}

// A plan that has been deleted can be deleted again: the removal of the owner's finalizer may have failed.
func TestDeletionIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		things := s.secretiveThings()
		things.Keep = make(drawer)
		remove := things.Delete
		things.Delete = func(ctx context.Context, r Ref) error {
			if r.Outcome["id"] == "" {
				return errors.New("a deletion without an id")
			}
			return remove(ctx, r)
		}
		describe := func(p *Plan) { s.step(p, things, "a") }
		s.turns(describe)
		time.Sleep(time.Hour)
		s.turns(describe)
		s.remove(describe)
		for range 3 {
			p := s.plan()
			describe(p)
			_, err := p.Delete(s.ctx)
			s.must(err)
			time.Sleep(time.Hour)
		}
		s.kill()
	})
}
