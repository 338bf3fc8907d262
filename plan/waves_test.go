package plan

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pintle-go/pintle/ready"
)

// statusWrites returns how often the status was written since the last call.
func (w *world) statusWrites() (n int) {
	for _, note := range w.notes {
		if strings.HasSuffix(note, "/status") {
			n++
		}
	}
	w.notes = nil
	return n
}

// The status is written once for each wave of nodes that are created together, and once
// when the last nodes are ready.
func TestStatusWritesPerWave(t *testing.T) {
	const waves = 4
	for name, c := range map[string]struct {
		atOnce bool
		want   []int // the writes of each run
	}{
		"ready at once": {true, []int{waves + 1, 1}},
		"ready later":   {false, []int{1, 1, 1, 1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t)
				describe := func(p *Plan) {
					var before []Need
					for wave := range waves {
						var nodes []Need
						for i := range 5 {
							n := s.add(p, fmt.Sprintf("n%d%d", wave, i), before...)
							nodes = append(nodes, n.ReadyWhen(func(o *plant) ready.State {
								if c.atOnce || o.isReady() {
									return ready.State{Phase: ready.Ready}
								}
								return ready.State{Phase: ready.Waiting}
							}))
						}
						before = nodes
					}
				}
				for i, want := range c.want {
					s.must(s.run(describe))
					if writes := s.statusWrites(); writes != want {
						t.Errorf("run %d writes the status %d times, want %d", i+1, writes, want)
					}
					s.grow(func(string) bool { return true })
				}
				s.is("n34", Ready, "")
			})
		})
	}
}

// The details of a node that has just begun to wait are written a little later, together
// with those that change until then.
func TestDetailsAreWrittenLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		text := "0 of 9"
		describe := func(p *Plan) {
			a := s.add(p, "a").ReadyWhen(func(*plant) ready.State { return ready.State{Phase: ready.Waiting, Message: text} })
			s.add(p, "b", a)
		}
		shown := func(want, blocked string) {
			t.Helper()
			is := s.garden().Status
			if a, b := is.Nodes[0], is.Nodes[1]; a.State != Waiting || a.Message != want || (a.UID != "") != (want != "") ||
				b.State != Blocked || b.Message != blocked {
				t.Errorf("the cluster has %+v, %+v", a, b)
			}
		}
		run := func() time.Duration {
			t.Helper()
			p := s.plan()
			describe(p)
			action, err := p.Run(s.ctx)
			s.must(err)
			return time.Duration(action)
		}
		run()
		shown("", "waits for a")
		if summary := s.garden().Status.Summary; summary != "waiting for a" {
			t.Errorf("the summary is %q", summary)
		}
		text = "1 of 9"
		time.Sleep(time.Second)
		again := run()
		shown("", "waits for a")
		if again <= 0 || again > detailsLast {
			t.Errorf("the plan is run again after %s", again)
		}
		time.Sleep(again)
		run()
		shown("1 of 9", "waits for a")
		text = "2 of 9"
		run()
		shown("2 of 9", "waits for a")
	})
}

// The other fields of the owner's status do not wait for the details of nodes.
func TestReportsAreWrittenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		for seen := 1; seen < 4; seen++ {
			p := s.plan()
			s.add(p, "a").ReadyWhen(func(*plant) ready.State { return ready.State{Phase: ready.Waiting, Message: "0 of 9"} })
			g := p.owner.(*garden)
			if seen == 3 {
				g.Status.Seen = seen // before the run
			} else {
				p.Report = func() { g.Status.Seen = seen }
			}
			_, err := p.Run(s.ctx)
			s.must(err)
			if is := s.garden().Status; is.Seen != seen || is.Nodes[0].Message != "" || g.Status.Nodes[0].Message != "0 of 9" {
				t.Errorf("seen is %d, the message %q, and %q in the program", is.Seen, is.Nodes[0].Message, g.Status.Nodes[0].Message)
			}
		}
	})
}
