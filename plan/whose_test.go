package plan

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pintle-go/pintle/kube"
)

// hasToken reports whether a tool was made by the creation that a Ref tells of.
func hasToken(r Ref, is *tool) bool { return r.Token != "" && is.Token == r.Token }

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
						if adopts {
							all.Adopt = hasToken
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
							if err := s.run(describe); !errors.Is(err, kube.ErrTaken) || !strings.Contains(err.Error(), "have Adopt") {
								t.Fatalf("got %v", err)
							}
						}
					}
					if deleted == "by another process" {
						known = things()
					}
					if deleted == "by another process" && !adopts {
						p := s.plan()
						describe(p)
						if _, err := p.Delete(s.ctx); err == nil || !strings.Contains(err.Error(), "nothing says whose this one is: delete it in") {
							t.Errorf("got %v", err)
						}
						s.is("a", Deleting, "nothing says whose")
						theirs = *s.shed.tools[0]
						s.shed.tools = nil // as the message says
						s.remove(describe)
						s.shed.tools = []*tool{&theirs}
					} else {
						s.remove(describe)
					}
					if is := s.shed.find("a"); is == nil || *is != theirs || s.shed.count("delete")+s.shed.count("update") > 0 {
						t.Errorf("the tool of somebody else is %+v; calls are %v", is, s.shed.calls)
					}
					s.kill()
				})
			})
		}
	}
}

// What says that a thing is the owner's after a creation that was not answered.
func TestOwnThingAfterALostAnswer(t *testing.T) {
	for _, says := range []string{"the uid in its name", "the token", "the uid in a tag", "as it was sent", "completed with an id"} {
		for _, then := range []string{"", "deleted", "deleted by another process"} {
			t.Run(says+" "+then, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newScene(t)
					shows := map[string]func(is tool) tool{
						"the uid in its name":  func(is tool) tool { return tool{Name: is.Name, Color: "any", Ready: true} },
						"the token":            func(is tool) tool { return tool{Name: is.Name, Color: "any", Token: is.Token} },
						"the uid in a tag":     func(is tool) tool { return tool{Name: is.Name, Color: "any", ID: "owner=uid-eden"} },
						"as it was sent":       func(is tool) tool { return tool{Name: is.Name, Color: is.Color} },
						"completed with an id": func(is tool) tool { return tool{Name: is.Name, Color: is.Color, ID: is.ID, Ready: true} },
					}[says]
					process := func() *Things[tool] {
						things := s.shed.things()
						if says == "the uid in its name" {
							things.Name = nil
						}
						observe := things.Observe
						things.Update = nil
						things.Observe = func(ctx context.Context, r Ref) (*tool, error) {
							is, err := observe(ctx, r)
							if is != nil {
								*is = shows(*is)
							}
							return is, err
						}
						return things
					}
					s.shed.fault = func(call string) fault {
						if strings.HasPrefix(call, "create") {
							s.shed.fault = nil
							return fault{err: errUnanswered, executed: true}
						}
						return fault{}
					}
					things := process()
					describe := func(p *Plan) { s.step(p, things, "a") }
					_ = s.run(describe)
					left := 0
					switch then {
					case "":
						s.turns(describe)
						s.is("a", Ready, "")
						left = 1
					case "deleted by another process":
						things = process()
						if says == "as it was sent" || says == "completed with an id" {
							s.kill()
							return // nobody knows what was sent
						}
						s.remove(describe)
					default:
						s.remove(describe)
					}
					if len(s.shed.tools) != left || s.shed.made != 1 {
						t.Errorf("%d tools are there, %d were made: %v", len(s.shed.tools), s.shed.made, s.shed.calls)
					}
					s.kill()
				})
			})
		}
	}
}

// A process that has recorded no more than the outcome knows by it that the thing was made.
func TestOwnThingByItsOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		things := s.secretiveThings()
		kept := make(drawer)
		things.Keep = kept
		observe := things.Observe
		things.Observe = func(ctx context.Context, r Ref) (*tool, error) {
			is, err := observe(ctx, r)
			if is != nil {
				*is = tool{Name: is.Name, Color: is.Color, ID: r.Outcome["id"], Needs: "what the target has added"}
			}
			return is, err
		}
		things.Update = nil
		describe := func(p *Plan) {
			Step(p, "a", things, func(Inputs) (*tool, error) { return &tool{Name: "a", Color: "red"}, nil })
		}
		s.refuse = refuseOnce(2, 500) // the status that says that it was made
		_ = s.run(describe)
		things.known, things.holders = nil, nil // another process
		s.refuse = nil
		s.turns(describe)
		s.is("a", Ready, "")
		if s.shed.made != 1 {
			t.Errorf("calls are %v", s.shed.calls)
		}
		s.kill()
	})
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

// A deletion in doubt takes nothing that somebody makes after it, although it is what was sent.
func TestDeletionInDoubtTakesNothingLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		things := s.shed.things()
		s.shed.fault = func(call string) fault {
			if strings.HasPrefix(call, "create") {
				s.shed.fault = nil
				return fault{err: errUnanswered, executed: true}
			}
			return fault{}
		}
		describe := func(p *Plan) { s.step(p, things, "a") }
		_ = s.run(describe)
		p := s.plan()
		describe(p)
		_, err := p.Delete(s.ctx)
		s.must(err)
		theirs := &tool{Name: "a", Color: "red"}
		s.shed.tools = append(s.shed.tools, theirs)
		s.remove(describe)
		if !slices.Equal(s.shed.tools, []*tool{theirs}) || s.shed.count("delete") != 1 {
			t.Errorf("tools are %v; calls are %v", s.shed.tools, s.shed.calls)
		}
		s.kill()
	})
}

// An owner that was deleted without its finalizer keeps no name from a later one.
func TestSuccessorOfALostOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newScene(t), newScene(t)
		b.garden().UID = "uid-next"
		things := a.shed.things()
		of := func(s *scene) func(p *Plan) { return func(p *Plan) { s.step(p, things, "a") } }
		a.turns(of(a))
		a.shed.tools = nil // somebody has deleted the tool with its owner
		if err := b.run(of(b)); !errors.Is(err, kube.ErrTaken) {
			t.Errorf("the name was taken while its owner may be there: %v", err)
		}
		for range 10 {
			time.Sleep(10 * time.Minute)
			_ = b.run(of(b))
		}
		b.is("a", Ready, "")
		a.kill()
		b.kill()
	})
}

// An owner that is alive keeps the name of its thing, however long that is there.
func TestNameOfALivingOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newScene(t), newScene(t)
		b.garden().UID = "uid-next"
		things := a.shed.things()
		of := func(s *scene) func(p *Plan) { return func(p *Plan) { s.step(p, things, "a") } }
		a.turns(of(a))
		for range 30 {
			time.Sleep(5 * time.Minute)
			a.turns(of(a))
		}
		a.shed.tools = nil
		if err := b.run(of(b)); !errors.Is(err, kube.ErrTaken) {
			t.Errorf("got %v", err)
		}
		a.kill()
		b.kill()
	})
}

// What equals the thing as it is wanted now, but not the one that Create was to make, is not the
// owner's: it was not made by that creation.
func TestTakenThingThatIsWantedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		theirs := tool{Name: "a", Color: "green"}
		known := s.shed.things()
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

// If the target stores tokens, another token says that the thing is somebody else's, although it
// is what was sent.
func TestAnotherToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		things := s.shed.things()
		create := things.Create
		describe := func(p *Plan) {
			s.step(p, things, "first")
			s.step(p, things, "a")
		}
		s.shed.tools = nil
		things.Create = func(ctx context.Context, r Ref, want *tool) (*tool, error) {
			if r.Name == "first" {
				return create(ctx, r, want)
			}
			time.Sleep(time.Second) // the first one is answered before
			s.shed.tools = append(s.shed.tools, &tool{Name: "a", Color: "red", Token: "theirs"})
			return nil, errors.New("409 Conflict")
		}
		_ = s.run(describe)
		time.Sleep(2 * time.Second)
		if err := s.run(describe); !errors.Is(err, kube.ErrTaken) {
			t.Errorf("got %v", err)
		}
		s.remove(describe)
		if got := s.shed.names(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("left are %v; calls are %v", got, s.shed.calls)
		}
		s.kill()
	})
}

func TestAsSent(t *testing.T) {
	type part struct{ size int }
	type thing struct {
		Name, ID string
		Part     *part
		Tags     map[string]string
		List     []part
		At       time.Time
		Any      any
		On       bool
	}
	at := time.Now().UTC().Truncate(time.Second)
	for name, c := range map[string]struct {
		sent, is thing
		values   int
		same     bool
	}{
		"only the name": {thing{Name: "a"}, thing{Name: "a", ID: "1"}, 0, true},
		"completed": {
			thing{Name: "a", Part: &part{1}, Tags: map[string]string{"x": "y"}},
			thing{Name: "a", ID: "1", Part: &part{1}, Tags: map[string]string{"x": "y", "z": "z"}, On: true}, 2, true,
		},
		"another value": {thing{Name: "a", ID: "1"}, thing{Name: "a", ID: "2"}, 1, false},
		"no part":       {thing{Part: &part{1}}, thing{}, 0, false},
		"no tag":        {thing{Tags: map[string]string{"x": "y"}}, thing{Tags: map[string]string{"z": "y"}}, 0, false},
		"another part":  {thing{List: []part{{1}, {2}}}, thing{List: []part{{1}, {3}}}, 2, false},
		"another type":  {thing{Any: 1}, thing{Any: "1"}, 0, false},
		"more parts":    {thing{List: []part{{1}}}, thing{List: []part{{1}, {2}}}, 0, false},
		"time":          {thing{At: at, Any: 1, On: true}, thing{At: at, Any: 1, On: true, ID: "1"}, 3, true},
	} {
		values, same := asSent(reflect.ValueOf(c.sent), reflect.ValueOf(c.is), "a", false, maxDepth)
		if same != c.same || same && values > 0 != (c.values > 0) {
			t.Errorf("%s: %d values, same %t", name, values, same)
		}
	}
}
