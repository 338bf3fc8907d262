package plan

import (
	"testing"
	"testing/synctest"
	"time"
)

// A thing that could not be observed is observed again soon, however often other nodes of its
// owner have failed.
func TestFailedPollIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		things := s.shed.things()
		describe := func(p *Plan) { s.step(p, things, "a") }
		s.turns(describe)
		time.Sleep(10 * time.Minute)
		s.shed.fault = func(string) fault { return fault{err: errUnanswered} }
		for begun := time.Now(); time.Since(begun) < time.Minute; {
			p := s.plan()
			describe(p)
			action, err := p.Run(s.ctx)
			if err == nil {
				t.Fatal("the observation has succeeded")
			}
			again, most := time.Duration(action), max(3*time.Second, time.Since(begun)/2)
			if again < time.Second || again > most {
				t.Fatalf("after %s it is observed again in %s", time.Since(begun), again)
			}
			time.Sleep(again)
		}
		s.kill()
	})
}

// The node of an object whose name no server takes has failed since its first run.
func TestNameThatNoServerTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		describe := func(p *Plan) { s.add(p, "a/b") }
		_ = s.run(describe)
		first := s.is("a/b", Failed, `no server takes the name "a/b"`)
		for range 5 {
			time.Sleep(time.Minute)
			_ = s.run(describe)
			if again := s.is("a/b", Failed, ""); !again.Since.Equal(&first.Since) {
				t.Errorf("it has failed since %s, and then since %s", first.Since, again.Since)
			}
		}
		s.kill()
	})
}
