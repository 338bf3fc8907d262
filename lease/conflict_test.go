package lease

import (
	"testing"
	"testing/synctest"
	"time"
)

// refused has the server refuse all updates of a process for a while. It checks that the
// process pauses between them.
func refused(t *testing.T, p *process, during func()) {
	t.Helper()
	const most = 2000 // without pauses, virtual time would stand still
	p.faults.set(func(f *faults) { f.refuse = most })
	began := time.Now()
	during()
	took := time.Since(began)
	p.faults.set(func(f *faults) {
		if n := most - f.refuse; n < 2 || n > 2+2*int(took/(200*time.Millisecond)) {
			t.Errorf("%d updates were refused in %s", n, took)
		}
		f.refuse = 0
	})
}

// A process whose updates are all refused with 409 Conflict pauses between them: a holder,
// one that releases the lease, a candidate, one that claims the lease, and one that
// withdraws its claim.
func TestConflictsWithoutEnd(t *testing.T) {
	t.Run("renew", func(t *testing.T) {
		inBubble(t, func(t *testing.T, _ *server, a *process) {
			refused(t, a, func() { time.Sleep(7 * time.Second) })
			if time.Sleep(time.Minute); !a.acts() {
				t.Errorf("a has lost the lease after refusals that were over in time: %v", a.err)
			}
			refused(t, a, func() { time.Sleep(time.Minute) })
			if !t.Failed() {
				a.wantLost()
			}
		})
	})
	t.Run("release", func(t *testing.T) {
		inBubble(t, func(t *testing.T, s *server, a *process) {
			refused(t, a, a.end)
			if holder(s.current()) != "a" {
				t.Error("the lease was released")
			}
		})
	})
	t.Run("take", func(t *testing.T) {
		inBubble(t, func(t *testing.T, s *server, a *process) {
			a.end()
			b := s.process(t, "b")
			refused(t, b, func() {
				b.run()
				time.Sleep(time.Minute)
			})
			if time.Sleep(4 * time.Second); !b.acts() {
				t.Error("b does not act when it may take the lease")
			}
		})
	})
	t.Run("claim", func(t *testing.T) {
		inBubble(t, func(t *testing.T, s *server, _ *process) {
			b := s.process(t, "b")
			b.lease.TakeOver = true
			refused(t, b, func() {
				b.run()
				time.Sleep(time.Minute)
			})
			if time.Sleep(10 * time.Second); !b.acts() {
				t.Error("b does not act when it may claim the lease")
			}
			c := s.process(t, "c")
			c.lease.TakeOver = true
			c.run()
			time.Sleep(time.Minute)
			if claimOf(s.current()).identity != "c" {
				t.Fatal("c does not claim the lease")
			}
			refused(t, c, c.end)
		})
	})
}

// A single conflict is followed at once by another try.
func TestOneConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.process(t, "a")
		a.lease.Renew, a.lease.Margin = 7*time.Second, 7*time.Second
		a.run()
		for range 100 {
			a.faults.set(func(f *faults) { f.refuse = 1 })
			if time.Sleep(7500 * time.Millisecond); !a.acts() || time.Since(s.current().Spec.RenewTime.Time) > 7*time.Second {
				t.Fatalf("the lease was last renewed at %s: %v", s.current().Spec.RenewTime, a.err)
			}
		}
	})
}
