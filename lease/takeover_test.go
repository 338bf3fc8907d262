package lease

import (
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// developer returns a process with TakeOver.
func (s *server) developer(t testing.TB, who string) *process {
	t.Helper()
	p := s.process(t, who)
	p.lease.TakeOver = true
	return p
}

// cut drops all requests of the process.
func (p *process) cut() { p.faults.set(func(f *faults) { f.cut = true }) }

// runs reports whether Run has not returned.
func (p *process) runs() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// until waits until the process acts, and returns how long that took.
func (p *process) until() time.Duration {
	p.t.Helper()
	since := time.Now()
	for !p.acts() {
		if time.Since(since) > time.Hour {
			p.t.Fatalf("%s does not act", p.who)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(since)
}

// A developer's process takes the lease over from the deployed ones. These go on when it
// has ended, and none of their processes ends.
func TestTakeOver(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server, a *process) {
		standby := s.start(t, "b")
		time.Sleep(time.Minute)
		d := s.developer(t, "d").run()
		if took := d.until(); took > 3500*time.Millisecond { // a renewal is 3 s
			t.Errorf("d acts after %s", took)
		}
		for range 600 {
			time.Sleep(time.Second)
			if !d.acts() || a.acts() || standby.acts() {
				t.Fatalf("d acts: %t, a: %t, b: %t", d.acts(), a.acts(), standby.acts())
			}
		}
		if claimOf(s.current()).text != "" {
			t.Errorf("the claim is left: %v", s.current().Annotations)
		}
		d.end()
		time.Sleep(time.Second)
		if !a.acts() == !standby.acts() || !a.runs() || !standby.runs() {
			t.Errorf("a second after d has ended a acts: %t, b acts: %t", a.acts(), standby.acts())
		}
	})
}

// No process acts before the holder has stopped, however long that takes.
func TestTakeOverWaitsForTheHolder(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server, a *process) {
		a.linger.Store(int64(time.Minute))
		standby := s.start(t, "b")
		d := s.developer(t, "d").run()
		time.Sleep(4 * time.Second)
		if a.acts() {
			t.Error("a does not stop")
		}
		for range 58 {
			time.Sleep(time.Second)
			if d.acts() || standby.acts() || time.Since(s.lastWrite("a")) > time.Second {
				t.Fatalf("while a stops d acts: %t, b acts: %t, a writes: %v", d.acts(), standby.acts(), a.refused)
			}
		}
		d.until()
		if standby.acts() || !a.runs() {
			t.Errorf("b acts: %t, a runs: %t", standby.acts(), a.runs())
		}
	})
}

// A claimant that has ended, or sends no requests, is not waited for.
func TestClaimantGoesAway(t *testing.T) {
	for name, test := range map[string]struct {
		leave  func(s *server, d *process)
		within time.Duration
	}{
		"it ends":       {func(_ *server, d *process) { d.end() }, 2 * time.Second},
		"it is cut off": {func(_ *server, d *process) { d.cut() }, 16 * time.Second},
		"the claim is removed": {func(s *server, d *process) {
			d.cut()
			s.edit(unclaimed)
		}, time.Second},
		"the lease is deleted": {func(s *server, d *process) {
			d.end()
			s.edit(func(*coordinationv1.Lease) *coordinationv1.Lease { return nil })
		}, 2 * time.Second},
		"its claim becomes unreadable": {func(s *server, d *process) {
			d.cut()
			s.edit(garbled)
		}, time.Second},
		"it ends, and its request hangs": {func(_ *server, d *process) {
			d.cut()
			d.end()
		}, 21 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *server, a *process) {
				a.linger.Store(int64(10 * time.Second))
				d := s.developer(t, "d").run()
				time.Sleep(5 * time.Second)
				if a.acts() || claimOf(s.current()).identity != "d" {
					t.Fatalf("a acts: %t; %v", a.acts(), s.current().Annotations)
				}
				test.leave(s, d)
				left := time.Now()
				a.linger.Store(0)
				for !a.acts() {
					time.Sleep(10 * time.Millisecond)
					if time.Since(left) > 10*time.Second+test.within {
						t.Fatalf("a does not act %s after d has left", time.Since(left))
					}
				}
				time.Sleep(time.Minute)
				if !a.acts() || claimOf(s.current()).text != "" {
					t.Errorf("a acts: %t, the claim: %q", a.acts(), claimOf(s.current()).text)
				}
			})
		})
	}
}

func garbled(l *coordinationv1.Lease) *coordinationv1.Lease {
	l.Annotations = map[string]string{claimAnnotation: "x"}
	return l
}

// Holders with TakeOver do not step down for one another; the first claimant is next.
func TestTwoTakeOver(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server, a *process) {
		d := s.developer(t, "d").run()
		d.until()
		e := s.developer(t, "e").run()
		time.Sleep(10 * time.Second)
		f := s.developer(t, "f").run()
		transitions := value(s.current().Spec.LeaseTransitions)
		time.Sleep(3 * time.Minute)
		if !d.acts() || e.acts() || f.acts() || a.acts() || value(s.current().Spec.LeaseTransitions) != transitions {
			t.Errorf("d acts: %t, e: %t, f: %t, a: %t; %v", d.acts(), e.acts(), f.acts(), a.acts(), s.current().Spec)
		}
		d.end()
		e.until()
		time.Sleep(time.Minute)
		if !e.acts() || f.acts() || a.acts() {
			t.Errorf("e acts: %t, f: %t, a: %t", e.acts(), f.acts(), a.acts())
		}
		e.end()
		f.until()
		f.end()
		a.until()
	})
}

// A developer's process competes like any other for a lease without a holder. The claim
// of a killed process delays the deployed ones once.
func TestTakeOverOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		d := s.developer(t, "d").run()
		if took := d.until(); took > time.Second {
			t.Errorf("d acts after %s", took)
		}
		d.end()
		s.edit(func(l *coordinationv1.Lease) *coordinationv1.Lease {
			return claiming(l, "killed", 15*time.Second, time.Now())
		})
		a := s.start(t, "a")
		if took := a.until(); took > 16*time.Second || took < 14*time.Second {
			t.Errorf("a acts after %s", took)
		}
		time.Sleep(5 * time.Minute)
		if !a.acts() {
			t.Error("a does not act")
		}
	})
}

func TestClaimText(t *testing.T) {
	was := new(coordinationv1.Lease)
	o := claiming(was, "a name with spaces", 1500*time.Millisecond, time.Now())
	if c := claimOf(o); c.identity != "a name with spaces" || c.lasts != 1500*time.Millisecond || was.Annotations != nil {
		t.Errorf("%+v", c)
	}
	for _, text := range []string{"", "x", "15s", "15s now", "-1s now me", "soon now me"} {
		o.Annotations[claimAnnotation] = text
		if c := claimOf(o); c != (claim{}) {
			t.Errorf("%q is read as %+v", text, c)
		}
	}
	o.Annotations[claimAnnotation] = "1000h now me"
	if c := claimOf(o); c.lasts != maxClaim {
		t.Errorf("a claim lasts %s", c.lasts)
	}
}
