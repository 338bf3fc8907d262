package plan

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pintle-go/pintle/kube"
)

// If somebody else makes a thing of the name while a creation fails, the thing is theirs: it
// is neither changed nor deleted, whatever the error of the creation was and whichever process
// deletes the owner.
func TestNameTakenMeanwhile(t *testing.T) {
	for _, adopts := range []bool{true, false} {
		for _, deleted := range []string{"at once", "later", "by another process"} {
			t.Run(fmt.Sprint("adopts ", adopts, ", deleted ", deleted), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newScene(t)
					theirs := tool{Name: "a", Color: "green", Token: "theirs"}
					things := func() *Things[tool] {
						all := s.shed.things()
						if !adopts {
							all.Adopt = nil
						}
						all.Create = func(context.Context, Ref, *tool) (*tool, error) {
							is := theirs
							s.shed.tools = []*tool{&is}
							return nil, errors.New("409 Conflict")
						}
						return all
					}
					known := things()
					describe := func(p *Plan) { s.step(p, known, "a") }
					if err := s.run(describe); err == nil {
						t.Error("the creation has succeeded")
					}
					if deleted != "at once" {
						for range 100 {
							time.Sleep(2 * time.Second)
							if err := s.run(describe); !errors.Is(err, kube.ErrTaken) {
								t.Fatalf("got %v", err)
							}
						}
					}
					if deleted == "by another process" {
						known = things()
					}
					s.remove(describe)
					if is := s.shed.find("a"); is == nil || *is != theirs {
						t.Errorf("the tool of somebody else is %+v; calls are %v", is, s.shed.calls)
					}
					s.kill()
				})
			})
		}
	}
}

// A thing whose name has the owner's uid, or that equals the wanted one, is the owner's after a
// creation that was not answered, although nobody can tell by a token.
func TestOwnThingWithoutAToken(t *testing.T) {
	for _, name := range []string{"of the uid", "of its own"} {
		for _, deleted := range []bool{false, true} {
			t.Run(fmt.Sprint(name, deleted), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newScene(t)
					things := s.shed.things()
					things.Adopt = nil
					if name == "of the uid" {
						things.Name = nil
					}
					observe, create := things.Observe, things.Create
					things.Observe = func(ctx context.Context, r Ref) (*tool, error) {
						is, err := observe(ctx, r)
						if is != nil && name == "of its own" {
							is = &tool{Name: is.Name, Color: is.Color} // as of a target that shows what it was sent
						}
						return is, err
					}
					first := true
					things.Create = func(ctx context.Context, r Ref, want *tool) (*tool, error) {
						is, err := create(ctx, r, want)
						if err == nil && first {
							first = false
							return nil, errUnanswered
						}
						return is, err
					}
					describe := func(p *Plan) { s.step(p, things, "a") }
					_ = s.run(describe)
					if deleted {
						s.remove(describe)
					} else {
						s.turns(describe)
						s.is("a", Ready, "")
					}
					if made := len(s.shed.tools); made != map[bool]int{false: 1, true: 0}[deleted] || s.shed.made != 1 {
						t.Errorf("%d tools are there, %d were made: %v", made, s.shed.made, s.shed.calls)
					}
					s.kill()
				})
			})
		}
	}
}

// While the deletion of a thing is in doubt, another owner makes a thing of the name only in
// another process; and the deletion does not take that one.
func TestDeletionInDoubtTakesNoSuccessor(t *testing.T) {
	for _, another := range []bool{false, true} {
		for _, answered := range []bool{false, true} {
			t.Run(fmt.Sprint("another process ", another, ", answered ", answered), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					a, b := newScene(t), newScene(t)
					b.garden().UID = "uid-other"
					things := a.shed.things()
					of := func(s *scene) func(p *Plan) { return func(p *Plan) { s.step(p, things, "a") } }
					if !answered {
						a.shed.fault = func(call string) fault {
							if strings.HasPrefix(call, "create") {
								a.shed.fault = nil
								return fault{err: errUnanswered, executed: true}
							}
							return fault{}
						}
					}
					_ = a.run(of(a))
					leaves := func() {
						p := a.plan()
						of(a)(p)
						_, err := p.Delete(a.ctx)
						a.must(err)
					}
					leaves()
					if a.shed.has("a") {
						t.Fatalf("calls are %v", a.shed.calls)
					}
					if another {
						things = a.shed.things()
					}
					for range 20 {
						_ = b.run(of(b))
						time.Sleep(time.Second)
						leaves()
					}
					a.remove(of(a))
					b.turns(of(b))
					if made, n := a.shed.made, a.shed.count("delete"); made != 2 || n != 1 {
						t.Errorf("%d tools were made, with %d deletions: %v", made, n, a.shed.calls)
					}
					b.is("a", Ready, "")
					a.kill()
					b.kill()
				})
			})
		}
	}
}

// What equals the thing as it is wanted now, but not the one that Create was to make, is not the
// owner's: it was not made by that creation.
func TestTakenThingThatIsWantedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		theirs := tool{Name: "a", Color: "green"}
		known := s.shed.things()
		known.Adopt = nil
		known.Create = func(context.Context, Ref, *tool) (*tool, error) {
			is := theirs
			s.shed.tools = []*tool{&is}
			return nil, errors.New("409 Conflict")
		}
		color := "red"
		describe := func(p *Plan) {
			Step(p, "a", known, func(Inputs) (*tool, error) { return &tool{Name: "a", Color: color}, nil })
		}
		_ = s.run(describe)
		color = "green"
		for range 10 {
			time.Sleep(2 * time.Second)
			if err := s.run(describe); !errors.Is(err, kube.ErrTaken) {
				t.Errorf("got %v", err)
				break
			}
		}
		s.remove(describe)
		if is := s.shed.find("a"); is == nil || *is != theirs {
			t.Errorf("the tool of somebody else is %+v; calls are %v", is, s.shed.calls)
		}
		s.kill()
	})
}
