package plan

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pintle-go/pintle/controller"
)

// A creation that takes effect after its call has failed makes no second thing, is not lost,
// and does not survive the deletion of the plan.
func TestLateCreation(t *testing.T) {
	for _, late := range []time.Duration{0, 20 * time.Second, 59 * time.Second} {
		for _, unique := range []bool{false, true} {
			for _, deleted := range []bool{false, true} {
				t.Run(fmt.Sprint(late, unique, deleted), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						s := newScene(t)
						s.shed.unique = unique
						failed := false
						s.shed.fault = func(call string) fault {
							if call != "create a" || failed {
								return fault{}
							}
							failed = true
							return fault{err: errUnanswered, executed: true, late: late}
						}
						things := s.shed.things()
						describe := func(p *Plan) { s.add(p, "b", s.step(p, things, "a")) }
						if err := s.run(describe); !errors.Is(err, errUnanswered) {
							t.Errorf("got %v", err)
						}
						s.is("a", Failed, "the connection was lost")
						things = s.shed.things() // another process
						if deleted {
							s.remove(describe)
						} else {
							s.turns(describe)
							s.is("b", Ready, "")
						}
						time.Sleep(5 * time.Minute)
						if want := map[bool]int{false: 1, true: 0}[deleted]; len(s.shed.tools) != want || s.shed.made > 1 && !unique {
							t.Errorf("%d tools are there, %d were made", len(s.shed.tools), s.shed.made)
						}
						s.kept()
						s.kill()
					})
				})
			}
		}
	}
}

// The status says that a creation is uncertain, and until when. Another is not begun before.
func TestUncertainCreation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.shed.fault = func(call string) fault {
			if strings.HasPrefix(call, "create") {
				return fault{err: errUnanswered}
			}
			return fault{}
		}
		things := s.shed.things()
		describe := func(p *Plan) { s.step(p, things, "a") }
		_ = s.run(describe)
		begun := time.Now()
		s.must(s.run(describe))
		s.is("a", Waiting, "its creation was not answered, and may take effect until "+
			begun.Add(91*time.Second).UTC().Format(time.RFC3339))
		for s.shed.count("create") < 2 {
			_ = s.run(describe)
			time.Sleep(time.Second)
		}
		if waited := time.Since(begun); waited < 90*time.Second || waited > 93*time.Second {
			t.Errorf("it was created again after %s", waited)
		}
		s.kill()
	})
}

// A refused creation leaves no doubt: it is repeated at once, and the deletion does not wait.
func TestRefusedCreation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.shed.fault = func(call string) fault {
			if strings.HasPrefix(call, "create") && s.shed.calls[len(s.shed.calls)-1] == call && len(s.shed.calls) < 5 {
				return fault{err: fmt.Errorf("%w: no room", ErrRefused)}
			}
			return fault{}
		}
		things := s.shed.things()
		describe := func(p *Plan) { s.step(p, things, "a") }
		for range 2 {
			if err := s.run(describe); !errors.Is(err, ErrRefused) {
				t.Errorf("got %v", err)
			}
			s.is("a", Failed, "no room")
		}
		s.must(s.run(describe))
		s.is("a", Ready, "")
		s.shed.calls = nil
		s.shed.tools = nil
		time.Sleep(10 * time.Minute)
		if err := s.run(describe); !errors.Is(err, ErrRefused) {
			t.Errorf("got %v", err)
		}
		if _, err := s.plan().Delete(s.ctx); err == nil {
			t.Error("a plan deleted things that it does not know")
		}
		p := s.plan()
		p.Knows(things)
		if action, err := p.Delete(s.ctx); action != controller.Done || err != nil {
			t.Errorf("the deletion waits: %v %v", action, err)
		}
		s.kill()
	})
}

// The doubt about a creation outlasts a call that began late and took its time.
func TestDoubtOfALateCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		things := s.shed.things()
		things.Target = &Target{Concurrency: 1}
		observe, create := things.Observe, things.Create
		held := make(chan struct{})
		first := true
		things.Observe = func(ctx context.Context, r Ref) (*tool, error) {
			is, err := observe(ctx, r)
			if first {
				first = false
				go func() { // another owner calls the target for 28 s
					defer close(held)
					if done, err := things.Target.occupy(); err == nil {
						time.Sleep(28 * time.Second)
						done()
					}
				}()
				synctest.Wait()
			}
			return is, err
		}
		created := 0
		things.Create = func(ctx context.Context, r Ref, want *tool) (*tool, error) {
			if created++; created == 1 {
				if err := sleep(ctx, 28*time.Second); err != nil { // it gets a credential first, then sends the call
					return nil, err
				}
				s.mu.Lock()
				s.shed.fault = func(string) fault {
					s.shed.fault = nil
					return fault{err: errUnanswered, executed: true, late: 55 * time.Second} // less than Settle
				}
				s.mu.Unlock()
			}
			return create(ctx, r, want)
		}
		for range 100 {
			_ = s.run(func(p *Plan) { s.step(p, things, "a") })
			time.Sleep(2 * time.Second)
		}
		if len(s.shed.tools) != 1 || len(s.broken) > 0 {
			t.Errorf("tools are %v: %v", s.shed.names(), s.broken)
		}
		<-held
		s.broken = nil
		s.kill()
	})
}

// The recorded time of a creation is not earlier than its call by more than the target's
// timeout, however long the call has to wait.
func TestIntentOfACallThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		things := s.shed.things()
		things.Target = &Target{Concurrency: 1}
		observe, create := things.Observe, things.Create
		held := 0
		ended := make(chan struct{}, 2)
		things.Observe = func(ctx context.Context, r Ref) (*tool, error) {
			is, err := observe(ctx, r)
			if held++; held <= 2 {
				go func() { // others call the target until the intent is too old
					defer func() { ended <- struct{}{} }()
					if done, err := things.Target.occupy(); err == nil {
						time.Sleep(40 * time.Second)
						done()
					}
				}()
				synctest.Wait()
			}
			return is, err
		}
		things.Create = func(ctx context.Context, r Ref, want *tool) (*tool, error) {
			s.mu.Lock()
			called := s.garden().Status.Nodes[0].Thing.Called
			s.mu.Unlock()
			if age := time.Since(called.Time); age > 30*time.Second {
				t.Errorf("the thing is created %s after the intent was recorded", age)
			}
			return create(ctx, r, want)
		}
		s.turns(func(p *Plan) { s.step(p, things, "a") })
		s.is("a", Ready, "")
		<-ended
		s.kill()
	})
}

// An error of Observe that wraps ErrRefused does not end the doubt about a creation.
func TestRefusedObservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		calls := 0
		s.shed.fault = func(call string) fault {
			switch calls++; {
			case call == "create a" && calls == 2:
				return fault{err: errUnanswered, executed: true, late: 30 * time.Second}
			case call == "observe a" && calls == 3:
				return fault{err: fmt.Errorf("too many requests: %w", ErrRefused)} // as a helper for all calls may say
			}
			return fault{}
		}
		things := s.shed.things()
		for range 60 {
			_ = s.run(func(p *Plan) { s.step(p, things, "a") })
			time.Sleep(2 * time.Second)
		}
		if len(s.shed.tools) != 1 || len(s.broken) > 0 {
			t.Errorf("tools are %v: %v", s.shed.names(), s.broken)
		}
		s.broken = nil
		s.kill()
	})
}

// If the intent cannot be recorded, Create is not called, and there is no doubt: a thing
// that somebody else makes is not ours.
func TestIntentThatWasNotStored(t *testing.T) {
	for _, foreign := range []bool{false, true} {
		t.Run(fmt.Sprint("foreign ", foreign), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t)
				things := s.shed.things()
				describe := func(p *Plan) { s.step(p, things, "a") }
				s.refuse = refuseOnce(0, 409)
				if err := s.run(describe); err == nil || s.shed.count("create") > 0 {
					t.Fatalf("got %v, calls %v", err, s.shed.calls)
				}
				s.refuse = nil
				if foreign {
					s.shed.tools = []*tool{{Name: "a", Color: "green"}}
					for range 3 {
						_ = s.run(describe)
						time.Sleep(2 * time.Second)
					}
					if s.shed.find("a").Color != "green" {
						t.Errorf("the tool of somebody else is changed: %+v", s.shed.find("a"))
					}
					s.kill()
					return
				}
				begun := time.Now()
				s.turns(describe)
				if took := time.Since(begun); took > 10*time.Second {
					t.Errorf("a creation that was never called is doubted: it took %s", took)
				}
				s.kill()
			})
		})
	}
}

// When an earlier creation can no longer take effect, a refusal of the next one leaves no
// doubt.
func TestRefusedAfterDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		created := 0
		s.shed.fault = func(call string) fault {
			if call != "create a" {
				return fault{}
			}
			if created++; created == 1 {
				return fault{err: errUnanswered}
			}
			return fault{err: fmt.Errorf("%w: the quota is exceeded", ErrRefused)}
		}
		things := s.shed.things()
		describe := func(p *Plan) { s.step(p, things, "a") }
		for created < 2 {
			_ = s.run(describe)
			time.Sleep(2 * time.Second)
		}
		// The first creation can no longer take effect, the second was refused.
		if is := s.garden().Status.Nodes[0].Thing; !is.Called.IsZero() {
			t.Errorf("the refused creation is uncertain: %+v", is)
		}
		s.shed.tools = []*tool{{Name: "a", Color: "green"}} // somebody else's
		for range 3 {
			_ = s.run(describe)
			time.Sleep(2 * time.Second)
		}
		if s.shed.find("a").Color != "green" {
			t.Errorf("the tool of somebody else is changed: %+v", s.shed.find("a"))
		}
		s.kill()
	})
}

// A creation that is refused says nothing about an earlier one that was not answered: the
// deletion waits for that, and takes what it made.
func TestRefusalAfterAnUnansweredCreation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.shed.unique = true // its creations are repeated at once
		creations := 0
		s.shed.fault = func(call string) fault {
			if !strings.HasPrefix(call, "create") {
				return fault{}
			}
			if creations++; creations == 1 {
				return fault{err: errUnanswered, executed: true, late: 50 * time.Second}
			}
			return fault{err: fmt.Errorf("%w: no room", ErrRefused)}
		}
		things := s.shed.things()
		describe := func(p *Plan) { s.step(p, things, "a") }
		if err := s.run(describe); !errors.Is(err, errUnanswered) {
			t.Errorf("got %v", err)
		}
		time.Sleep(2 * time.Second)
		if err := s.run(describe); !errors.Is(err, ErrRefused) {
			t.Errorf("got %v", err)
		}
		s.remove(describe)
		time.Sleep(10 * time.Minute)
		if names := s.shed.names(); len(names) > 0 {
			t.Errorf("left are %v", names)
		}
		s.kill()
	})
}

// A creation that begins long after its intent was recorded ends when the record says that
// its call is over. If there is too little time until then, the intent is recorded again.
func TestTimeOfALateCreation(t *testing.T) {
	for _, late := range []time.Duration{0, 5 * time.Second, 13 * time.Second, 20 * time.Second, 29 * time.Second} {
		t.Run(late.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t)
				things := s.shed.things()
				create := things.Create
				begun := make(map[string]time.Duration) // since the intent
				things.Create = func(ctx context.Context, r Ref, want *tool) (*tool, error) {
					s.mu.Lock()
					for _, n := range s.garden().Status.Nodes {
						if n.ObjectName != r.Name {
							continue
						}
						begun[r.Name] = time.Since(n.Thing.Called.Time)
						over := n.Thing.Called.Add(things.target().timeout())
						if ends, _ := ctx.Deadline(); ends.After(over) || time.Until(ends) < things.target().timeout()/2 {
							t.Errorf("the creation of %s begins %s after the intent and may last %s", r.Name, begun[r.Name], time.Until(ends))
						}
					}
					s.mu.Unlock()
					if r.Name == "a" {
						time.Sleep(late)
					}
					return create(ctx, r, want)
				}
				s.turns(func(p *Plan) {
					p.Concurrency = 1 // one creation has to wait for the other
					s.step(p, things, "a")
					s.step(p, things, "b")
				})
				s.is("b", Ready, "")
				if len(begun) != 2 || s.shed.made != 2 {
					t.Errorf("creations are %v, %d tools were made", begun, s.shed.made)
				}
				s.kill()
			})
		})
	}
}
