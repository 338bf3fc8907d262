package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/ready"
)

// The state of a whole status is that about which people care most.
func TestStateOfAStatus(t *testing.T) {
	for want, states := range map[State][]State{
		"":       nil,
		Ready:    {Absent},
		Waiting:  {Ready, Waiting, Blocked, Deleting},
		Failed:   {Degraded, Failed, Waiting},
		Deleting: {Absent, Deleting, Ready},
	} {
		var is Status
		for _, s := range states {
			is.Nodes = append(is.Nodes, NodeStatus{State: s})
		}
		if got := is.State(); got != want {
			t.Errorf("the state of %v is %q, want %q", states, got, want)
		}
	}
}

// An object that has left and has to stay says for which nodes it waits.
func TestLeavingNamesWhatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.turns(func(p *Plan) {
			a := s.add(p, "a")
			s.add(p, "b", a)
		})
		waits := func(*plant) ready.State { return ready.State{Phase: ready.Waiting} }
		err := s.run(func(p *Plan) { s.add(p, "b", s.add(p, "c").ReadyWhen(waits)) })
		s.must(err)
		s.is("a", Deleting, "waiting for b")
		err = s.run(func(p *Plan) {
			c := s.add(p, "c").ReadyWhen(waits)
			for name := range strings.SplitSeq("d,e,f,g,h", ",") {
				s.add(p, name, c)
			}
		})
		s.must(err)
		s.is("a", Deleting, "waiting for d, e, f and 2 more")
		s.kill()
	})
}

// The condition Ready counts ready nodes, without absent ones.
func TestCountOfReadyNodes(t *testing.T) {
	s := newScene(t)
	s.must(s.run(func(p *Plan) {
		s.add(p, "a")
		s.add(p, "b").When(func(Inputs) bool { return false })
	}))
	if got := s.condition("Ready"); got != "True Ready 1 nodes are ready" {
		t.Errorf("one node is ready, one is absent: %q, column %s", got, s.garden().Status.ReadyNodes)
	}
}

// A degraded node that fails was not ready since the same time.
func TestSinceOfADegradedNodeThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		phase := ready.Waiting
		describe := func(p *Plan) {
			s.add(p, "a").Within(time.Minute).ReadyWhen(func(*plant) ready.State { return ready.State{Phase: phase, Message: "it is dry"} })
		}
		s.must(s.run(describe))
		time.Sleep(2 * time.Minute)
		s.must(s.run(describe))
		since := s.is("a", Degraded, "it is dry").Since
		phase = ready.Failed
		s.must(s.run(describe))
		if n := s.is("a", Failed, "it is dry"); !n.Since.Equal(&since) {
			t.Errorf("it has failed since %s, was degraded since %s", n.Since, since)
		}
		s.kill()
	})
}

// A plan that has become wrong is not ready, and its status says why. It is written once.
// When the plan is right again, so is the status.
func TestWrongPlanIsNotReady(t *testing.T) {
	for name, wrong := range map[string]func(s *scene, p *Plan){
		"cycle": func(s *scene, p *Plan) {
			b := s.add(p, "b")
			b.Needs(s.add(p, "c", b))
		},
		"a twin":  func(s *scene, p *Plan) { s.add(p, "b"); s.add(p, "b") },
		"no need": func(s *scene, p *Plan) { s.add(p, "b", s.add(s.plan(), "elsewhere")) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t)
				right := func(p *Plan) { s.add(p, "a") }
				s.must(s.run(right))
				s.grow(all)
				s.must(s.run(right))
				if got := s.condition("Ready"); !strings.HasPrefix(got, "True") {
					t.Fatalf("Ready is %s", got)
				}
				for range 2 {
					s.notes = nil
					p := s.plan()
					right(p)
					wrong(s, p)
					action, err := p.Run(s.ctx)
					if !errors.Is(err, errGraph) || !controller.IsTerminal(err) || action != controller.Done {
						t.Errorf("got %v, %v", action, err)
					}
					s.is("a", Ready, "")
					if got := s.condition("Ready"); got != "False WrongPlan "+err.Error() {
						t.Errorf("Ready is %s, want %v", got, err)
					}
					if got := s.condition("Degraded"); got != "True WrongPlan "+err.Error() {
						t.Errorf("Degraded is %s", got)
					}
					if got := s.garden().Status.Summary; !strings.HasPrefix(got, "the plan is wrong: ") {
						t.Errorf("the summary is %q", got)
					}
					if len(s.notes) != 1 {
						t.Errorf("it sends %v", s.notes)
					}
				}
				s.must(s.run(right))
				if got := s.condition("Ready") + s.condition("Degraded"); got != "True Ready 1 nodes are readyFalse AsExpected " {
					t.Errorf("the conditions are %s", got)
				}
				if got := s.garden().Status.Summary; got != "Ready" {
					t.Errorf("the summary is %q", got)
				}
				s.kill()
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.refuse = refuseOnce(0, 409)
		p := s.plan()
		s.add(p, "a")
		s.add(p, "a")
		if _, err := p.Run(s.ctx); !errors.Is(err, errGraph) || controller.IsTerminal(err) {
			t.Errorf("the status was not written: got %v, want an error that is retried", err)
		}
		s.kill()
	})
}

// The status of 200 nodes with long names, many needs and long messages fits well inside an
// object, which may have 1.5 MiB in etcd.
func TestSizeOfALargeStatus(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		things := s.shed.things()
		things.Outcome = func(*tool) map[string]string { return map[string]string{"key": strings.Repeat("k", 500)} }
		long := strings.Repeat("x", 50)
		exists := func(*plant) ready.State { return ready.State{Phase: ready.Ready} }
		describe := func(p *Plan) {
			p.Concurrency = 50
			var all []Need
			for i := range 200 {
				name := fmt.Sprintf("%s-%03d", long, i)
				needs := all[max(0, len(all)-10):]
				if i%2 == 0 {
					all = append(all, s.step(p, things, name, needs...).UntilGone())
					continue
				}
				all = append(all, s.add(p, name, needs...).ReadyWhen(exists).Retain())
			}
		}
		s.turns(describe)
		size := func() int {
			raw, err := json.Marshal(s.garden())
			s.must(err)
			return len(raw)
		}
		settled := size()
		for i := range s.garden().Status.Nodes { // all say at once why they are not ready
			s.garden().Status.Nodes[i].enter(Failed, strings.Repeat("m", 5000), time.Now())
		}
		t.Logf("%d bytes, %d with messages", settled, size())
		if n := size(); n > 1<<20 || settled > 1<<19 {
			t.Errorf("the owner has %d bytes, %d with messages", settled, n)
		}
		s.kill()
	})
}
