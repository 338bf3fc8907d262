package lease

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"pgregory.net/rapid"

	"github.com/pintle-go/pintle/internal/bubble"
)

// TestNeverTwoHolders has processes come, go, fail, be cut off, have their clocks set,
// and take the lease over, in random order. At no instant may two of them act, nor may
// one write while another acts. When all faults are gone, one process acts: one with
// TakeOver if there is any.
func TestNeverTwoHolders(t *testing.T) {
	bubble.Check(t, 4, func(rt *rapid.T, t *testing.T) {
		m := &model{T: rt, t: quiet{t}, server: newServer()}
		m.onWrite = func(who string) {
			for _, p := range m.all() {
				if p.who != who && p.acts() {
					m.violate("%s writes while %s acts", who, p.who)
				}
			}
		}
		rt.Cleanup(m.end)
		for range 2 {
			m.come(rt)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"":      m.check,
			"come":  m.come,
			"go":    m.pick(func(_ *rapid.T, p *process) { p.stop() }),
			"again": m.pick(again),
			"cut":   m.fault(func(_ *rapid.T, f *faults) { f.cut = true }),
			"claim": m.pick(func(_ *rapid.T, p *process) {
				if p.lease.TakeOver { // a claim that nobody renews or withdraws
					m.claimFor(p.who)
				}
			}),
			"heal": m.fault(func(_ *rapid.T, f *faults) { f.cut, f.before, f.after = false, 0, 0 }),
			"lose": m.fault(func(rt *rapid.T, f *faults) { f.lose = rapid.IntRange(1, 5).Draw(rt, "answers") }),
			"slow": m.fault(func(rt *rapid.T, f *faults) {
				f.before, f.after = drawTime(rt, 12*time.Second), drawTime(rt, 12*time.Second)
			}),
			"set clock": m.pick(func(rt *rapid.T, p *process) {
				p.skew.Store(
					int64(
						rapid.SampledFrom([]time.Duration{0, -time.Hour, time.Second, 5 * time.Second, time.Hour}).Draw(rt, "skew"),
					),
				)
			}),
			"linger": m.pick(func(rt *rapid.T, p *process) { p.linger.Store(int64(drawTime(rt, time.Minute))) }),
			"wait":   m.wait,
			"moment": func(rt *rapid.T) { time.Sleep(drawTime(rt, time.Second)) },
		})
		m.finish(rt)
	})
}

// claimFor writes a claim and leaves it, as a killed process does.
func (m *model) claimFor(who string) {
	m.edit(func(l *coordinationv1.Lease) *coordinationv1.Lease {
		if l == nil {
			return nil
		}
		return claiming(l, who, 15*time.Second, time.Now())
	})
}

// quiet drops logs.
type quiet struct{ *testing.T }

func (quiet) Log(...any) {}

// Cleanup does nothing, because the model ends the processes.
func (quiet) Cleanup(func()) {}

type model struct {
	*rapid.T
	*server
	t         testing.TB
	processes []*process
	broken    strings.Builder
}

func drawTime(rt *rapid.T, limit time.Duration) time.Duration {
	return time.Duration(rapid.Int64Range(0, int64(limit/time.Millisecond)).Draw(rt, "ms")) * time.Millisecond
}

func (m *model) violate(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fmt.Fprintf(&m.broken, format+"\n", args...)
}

func (m *model) come(rt *rapid.T) {
	if len(m.processes) == 4 {
		return
	}
	p := m.process(m.t, string(rune('a'+len(m.processes))))
	p.every = time.Second
	p.lease.TakeOver = rapid.IntRange(0, 3).Draw(rt, "takes over") == 0
	p.run()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.processes = append(m.processes, p)
}

func (m *model) all() []*process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.processes)
}

func (m *model) one(rt *rapid.T) *process {
	return m.processes[rapid.IntRange(0, len(m.processes)-1).Draw(rt, "process")]
}

// again restarts an ended process under its own name.
func again(_ *rapid.T, p *process) {
	if !p.runs() {
		p.run()
	}
}

func (m *model) pick(do func(*rapid.T, *process)) func(*rapid.T) {
	return func(rt *rapid.T) { do(rt, m.one(rt)) }
}

func (m *model) fault(change func(*rapid.T, *faults)) func(*rapid.T) {
	return m.pick(func(rt *rapid.T, p *process) {
		p.faults.set(func(f *faults) { change(rt, f) })
	})
}

// wait lets time pass and checks in between.
func (m *model) wait(rt *rapid.T) {
	for range rapid.IntRange(1, 30).Draw(rt, "seconds") {
		time.Sleep(time.Second)
		m.check(rt)
	}
}

func (m *model) check(rt *rapid.T) {
	synctest.Wait()
	var acting []string
	for _, p := range m.processes {
		if p.acts() {
			acting = append(acting, p.who)
		}
	}
	if len(acting) > 1 {
		m.violate("%s act", acting)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken.Len() > 0 {
		rt.Error(m.broken.String())
	}
}

// finish removes all faults, sees one process act, and ends all processes.
func (m *model) finish(rt *rapid.T) {
	for _, p := range m.processes {
		p.faults.set(func(f *faults) { f.cut, f.lose, f.before, f.after = false, 0, 0, 0 })
		p.linger.Store(0)
		again(rt, p)
	}
	p := m.processes[0]
	p.stop()
	<-p.ended
	p.run()
	time.Sleep(2 * time.Minute)
	m.check(rt)
	acts, takesOver, should := 0, false, false
	for _, p := range m.processes {
		should = should || p.lease.TakeOver && p.runs()
		if p.acts() {
			acts++
			takesOver = p.lease.TakeOver
		}
	}
	if acts != 1 {
		rt.Errorf("%d processes act when all is well", acts)
	}
	if takesOver != should {
		rt.Errorf("the process that acts takes over: %t, want %t", takesOver, should)
	}
	m.end()
	if h := holder(m.current()); h != "" {
		rt.Errorf("%s holds the lease when all have ended", h)
	}
}

// end ends all processes and lets requests on the network arrive.
func (m *model) end() {
	for _, p := range m.processes {
		p.stop()
		<-p.ended
		time.Sleep(time.Second) // the next process takes the lease before it is stopped too
	}
	time.Sleep(2 * time.Minute)
}
