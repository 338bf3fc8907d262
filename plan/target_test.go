package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pintle-go/pintle/kube"
)

// A target's limits hold for all owners together. Each gets its turn, and a node that waits
// holds up no other.
func TestTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.shed.takes = 100 * time.Millisecond
		things := s.shed.things()
		things.Target = &Target{Name: "the shed", Rate: 2, Burst: 4, Concurrency: 3}
		keys := strings.Split("abcdefghijklmnopqrst", "")
		describe := func(p *Plan) {
			EachStep(p, "tool", keys, things, func(_ Inputs, key string) (*tool, error) { return &tool{Name: key}, nil })
			s.add(p, "plant")
		}
		begun := time.Now()
		s.must(s.run(describe))
		if took := time.Since(begun); took > 3*time.Second || s.plant("plant") == nil {
			t.Errorf("the plant waits for the target: %s", took)
		}
		waits := 0
		for _, n := range s.garden().Status.Nodes {
			if n.State == Waiting && strings.Contains(n.Message, "waiting for its turn to call the shed") {
				waits++
			}
		}
		if waits < 10 {
			t.Errorf("%d of 20 nodes wait for their turn", waits)
		}
		s.turns(describe)
		calls := len(s.shed.calls)
		if took := s.shed.times[calls-1].Sub(begun); took < 17*time.Second || took > 22*time.Second {
			t.Errorf("%d calls at 2 per second took %s", calls, took)
		}
		if s.shed.top > 3 {
			t.Errorf("%d calls were under way at a time", s.shed.top)
		}
		if calls != 40 {
			t.Errorf("%d calls for 20 things", calls)
		}
		s.kill()
	})
}

// While a target is too busy to observe a thing again, the thing stays ready.
func TestPostponedPollStaysReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		things := s.shed.things()
		things.Target = new(Target)
		describe := func(p *Plan) { s.step(p, things, "a") }
		s.turns(describe)
		busy := s.shed.things()
		busy.Kind, busy.Target = "Other", things.Target
		s.shed.takes = 20 * time.Second
		time.Sleep(10 * time.Minute)
		ended := make(chan error)
		for i := range 8 {
			go func() {
				_, err := call(t.Context(), busy.Target, func(ctx context.Context) (*tool, error) {
					done, err := busy.Target.occupy()
					if err != nil {
						return nil, err
					}
					defer done()
					return busy.Observe(ctx, Ref{Name: fmt.Sprint("x", i)})
				})
				ended <- err
			}()
		}
		time.Sleep(time.Second)
		before := s.shed.count("observe a")
		s.must(s.run(describe))
		s.is("a", Ready, "")
		if s.shed.count("observe a") != before {
			t.Error("the target was called")
		}
		for range 8 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		s.kill()
	})
}

// A call that does not end is given up, and the error says so.
func TestCallWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.shed.takes = time.Hour
		things := s.shed.things()
		things.Target = &Target{Name: "the shed", Timeout: 5 * time.Second}
		begun := time.Now()
		err := s.run(func(p *Plan) { s.step(p, things, "a"); s.add(p, "b") })
		if err == nil || !strings.Contains(err.Error(), "observe Tool a: the shed did not answer within 5s") || time.Since(begun) > 6*time.Second {
			t.Errorf("after %s: %v", time.Since(begun), err)
		}
		s.is("b", Ready, "")
		s.kill()
	})
}

// fastest returns the most calls within a time.
func (s *scene) fastest(within time.Duration) (most int) {
	for i, from := range s.shed.times {
		n := 0
		for _, at := range s.shed.times[i:] {
			if at.Sub(from) < within {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// All calls count: those that create things that have gone, and those that observe after a
// deletion.
func TestRateOfAllCalls(t *testing.T) {
	for _, what := range []string{"recreation", "deletion until gone"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t)
				things := s.shed.things()
				things.Target = &Target{Rate: 1, Burst: 1}
				keys := strings.Split("abcdefghijklmnopqrst", "")
				describe := func(p *Plan) {
					EachStep(p, "tool", keys, things, func(_ Inputs, key string) (*tool, error) { return &tool{Name: key}, nil }).
						Do(func(_ string, n *Node[tool]) { n.UntilGone() })
				}
				s.turns(describe)
				time.Sleep(10 * time.Minute)
				s.shed.times = nil
				if what == "recreation" {
					s.shed.tools = nil // a disaster
					for range 60 {
						_ = s.run(describe)
						time.Sleep(time.Second)
					}
				} else {
					s.remove(describe)
				}
				if n := s.fastest(10 * time.Second); n > 12 {
					t.Errorf("%d calls in 10 s at 1 per second", n)
				}
				s.kill()
			})
		})
	}
}

// Turns that were not taken in time have to be asked for again.
func TestTurnsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		things := s.shed.things()
		things.Target = &Target{Name: "the shed", Rate: 1, Burst: 1, Concurrency: 50}
		keys := strings.Split("abcdefghijklmnopqrst", "")
		describe := func(p *Plan) {
			p.Concurrency = 50
			EachStep(p, "tool", keys, things, func(_ Inputs, key string) (*tool, error) { return &tool{Name: key}, nil })
		}
		s.must(s.run(describe))
		s.garden().Annotations = map[string]string{Paused: "true"}
		for range 9 {
			time.Sleep(time.Minute)
			s.must(s.run(describe))
		}
		s.garden().Annotations = nil
		s.shed.times = nil
		s.must(s.run(describe))
		if n := s.fastest(time.Second); n > 4 {
			t.Errorf("%d calls in a second, at 1 per second and a burst of 1", n)
		}
		s.kill()
	})
}

// A busy target holds up neither the other nodes of an owner nor its run.
func TestCreateDoesNotHoldUpItsOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		things := s.shed.things()
		things.Target = &Target{Concurrency: 1}
		observe := things.Observe
		done := make(chan struct{}, 10)
		things.Observe = func(ctx context.Context, r Ref) (*tool, error) {
			is, err := observe(ctx, r)
			for range 10 { // ten other owners call a target that hangs
				go func() {
					defer func() { done <- struct{}{} }()
					if end, err := things.Target.occupy(); err == nil {
						time.Sleep(30 * time.Second)
						end()
					}
				}()
			}
			synctest.Wait()
			return is, err
		}
		begun := time.Now()
		_ = s.run(func(p *Plan) {
			s.step(p, things, "a")
			s.add(p, "c", s.add(p, "b"))
		})
		if took := time.Since(begun); took > time.Minute {
			t.Errorf("a node that waits for its call holds up its owner for %s", took)
		}
		for range 10 {
			<-done
		}
		s.kill()
	})
}

// Things stay ready while their target is too busy to observe them, also as others are
// added.
func TestSightsOfABusyTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		things := s.shed.things()
		things.Poll = 30 * time.Second
		things.Target = &Target{Name: "the shed", Rate: 1}
		var keys []string
		for i := range 127 {
			keys = append(keys, fmt.Sprint("t", i))
		}
		describe := func(p *Plan) {
			EachStep(p, "tool", keys, things, func(_ Inputs, key string) (*tool, error) { return &tool{Name: key}, nil })
		}
		lost := func() (lost []string) {
			for _, n := range s.garden().Status.Nodes {
				if n.State != Ready && n.Name != "tool/another" {
					lost = append(lost, n.Name)
				}
			}
			return lost
		}
		for n := range 600 {
			_ = s.run(describe)
			if time.Sleep(time.Second); n > 300 && len(lost()) == 0 {
				break // each was observed twice
			}
		}
		if all := lost(); len(all) > 0 {
			t.Fatalf("%d nodes are not ready at first", len(all))
		}
		keys = append(keys, "another")
		for range 150 {
			_ = s.run(describe)
			if all := lost(); len(all) > 0 {
				t.Errorf("as a thing was added, %d ready nodes are not ready any more: %+v", len(all), s.is(all[0], Waiting, ""))
				break
			}
			time.Sleep(time.Second)
		}
		s.kill()
	})
}

// reconciler runs a plan as a controller does that sees no change: after an error it waits
// for the back-off, or for the action if that comes first.
type reconciler struct {
	*scene
	describe func(p *Plan)
	failures int
	due      time.Time
}

// pass lets time pass.
func (r *reconciler) pass(d time.Duration) {
	end := time.Now().Add(d)
	for !r.due.After(end) {
		time.Sleep(time.Until(r.due))
		p := r.plan()
		r.describe(p)
		action, err := p.Run(r.ctx)
		wait := time.Duration(action)
		if wait <= 0 {
			wait = 1000 * time.Hour
		}
		if r.failures++; err == nil {
			r.failures = 0
		} else {
			wait = min(wait, 50*time.Millisecond<<min(r.failures, 20), 5*time.Minute)
		}
		r.due = time.Now().Add(wait)
	}
	time.Sleep(time.Until(end))
}

// A node that fails again and again does not hold up the others: a thing of a limited
// target gets its turn, a poll comes when it is due, and a deadline is kept.
func TestFailedNodeHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		things, slow := s.shed.things(), s.shed.things()
		things.Poll = 30 * time.Second
		slow.Kind, slow.Target = "Slow", &Target{Name: "the slow one", Rate: 1.0 / 250, Burst: 1}
		describe := func(p *Plan) {
			Object(p, "bad", s.handle, func(Inputs) (*plant, error) { return nil, errors.New("it cannot be built") })
			s.step(p, things, "polled")
			s.step(p, slow, "slow")
			Lookup(p, "late", s.handle, kube.Key{Name: "nobody"}).Within(20 * time.Minute)
		}
		r := &reconciler{scene: s, describe: describe}
		r.pass(10 * time.Minute) // the back-off has become minutes
		s.is("slow", Ready, "")
		s.is("bad", Failed, "it cannot be built")
		s.shed.find("polled").Color = "blue"
		r.pass(40 * time.Second)
		if got := s.shed.find("polled").Color; got != "red" {
			t.Errorf("40 s later the color is %s", got)
		}
		s.is("late", Waiting, "it does not exist")
		r.pass(11 * time.Minute)
		s.is("late", Degraded, "not ready within 20m0s")
		s.kill()
	})
}

// The rate of a target holds for two owners together. They get their turns in the order in
// which they ask: those of the first come first, and hold up the others no longer.
func TestTargetOfTwoOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := &Target{Name: "the shed", Rate: 2, Burst: 4}
		keys := strings.Split("abcdefghijklmnopqrst", "")
		var owners []*reconciler
		begun := time.Now()
		for range 2 {
			s := newScene(t)
			things := s.shed.things()
			things.Target = target
			owners = append(owners, &reconciler{scene: s, describe: func(p *Plan) {
				EachStep(p, "tool", keys, things, func(_ Inputs, key string) (*tool, error) { return &tool{Name: key}, nil })
			}})
		}
		for range 60 * 10 {
			for _, r := range owners {
				r.pass(0)
			}
			time.Sleep(100 * time.Millisecond)
		}
		var calls []time.Time
		for i, r := range owners {
			if n := len(r.shed.calls); n != 2*len(keys) {
				t.Errorf("owner %d makes %d calls", i, n)
			}
			if took := r.shed.times[len(r.shed.times)-1].Sub(begun); took < time.Duration(i+1)*17*time.Second || took > time.Duration(i+1)*21*time.Second {
				t.Errorf("owner %d is done after %s", i, took)
			}
			calls = append(calls, r.shed.times...)
			r.kill()
		}
		slices.SortFunc(calls, time.Time.Compare)
		for i, from := range calls {
			n := 0
			for _, at := range calls[i:] {
				if at.Sub(from) < 10*time.Second {
					n++
				}
			}
			if n > 26 {
				t.Fatalf("%d calls in 10 s at 2 per second", n)
			}
		}
	})
}
