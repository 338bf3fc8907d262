package plan

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pintle-go/pintle/event"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/metrics"
	"github.com/pintle-go/pintle/ready"
)

// scrape returns the lines of the plan's metrics that are not 0.
func scrape(t *testing.T, m *metrics.Metrics) (lines []string) {
	t.Helper()
	var text bytes.Buffer
	if _, err := m.WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text.String()) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "pintle_plan") && !strings.HasSuffix(line, " 0") && !strings.Contains(line, "_bucket") {
			lines = append(lines, line)
		}
	}
	return lines
}

// The metrics tell the states of all nodes, for how long the oldest waits, and how long an
// owner was not ready. They go with the owner.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		shown := metrics.New()
		monitor := NewMonitor(nil, shown)
		describe := func(p *Plan) {
			p.Monitor = monitor
			s.add(p, "b", s.add(p, "a"))
			s.add(p, "c")
		}
		s.grow(all)
		s.must(s.run(describe)) // a plant without a condition is ready
		s.grow(func(name string) bool { return name != "a" })
		s.must(s.run(describe))
		time.Sleep(90 * time.Second)
		want := []string{
			`pintle_plan_nodes{kind="Garden.example.com",state="Blocked"} 1`,
			`pintle_plan_nodes{kind="Garden.example.com",state="Ready"} 1`,
			`pintle_plan_nodes{kind="Garden.example.com",state="Waiting"} 1`,
			`pintle_plan_oldest_wait_seconds{kind="Garden.example.com"} 90`,
		}
		got := slices.DeleteFunc(scrape(t, shown), func(line string) bool { return strings.Contains(line, "_ready_") })
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("metrics are\n%s", strings.Join(got, "\n"))
		}
		if g := s.garden(); g.Status.ReadyNodes != "1/3" || g.Status.Summary != "waiting for a: Ready is False: Grown" ||
			time.Since(g.Status.Since.Time) != 90*time.Second {
			t.Errorf("columns are %q %q %s", g.Status.ReadyNodes, g.Status.Summary, g.Status.Since)
		}
		s.grow(all)
		s.must(s.run(describe))
		got = scrape(t, shown)
		if !slices.Contains(got, `pintle_plan_ready_seconds_count{kind="Garden.example.com"} 2`) ||
			!slices.Contains(got, `pintle_plan_nodes{kind="Garden.example.com",state="Ready"} 3`) {
			t.Errorf("metrics are\n%s", strings.Join(got, "\n"))
		}
		if sum := s.garden().Status; sum.ReadyNodes != "3/3" || sum.Summary != "Ready" || time.Since(sum.Since.Time) != 0 {
			t.Errorf("columns are %+v", sum)
		}
		s.remove(describe)
		for _, line := range scrape(t, shown) {
			if !strings.Contains(line, "_ready_") {
				t.Errorf("after the deletion: %s", line)
			}
		}
		s.kill()
	})
}

// Events tell transitions only.
func TestEvents(t *testing.T) {
	s := newScene(t)
	var got []string
	recorder := &event.Recorder{Client: s.gardens.Client(), Controller: "example.com/gardener"}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- recorder.Run(ctx) }()
	monitor := NewMonitor(recorder, nil)
	broken := false
	describe := func(p *Plan) {
		p.Monitor = monitor
		Object(p, "a", s.handle, func(Inputs) (*plant, error) {
			if broken {
				panic("a bug")
			}
			return named("a"), nil
		})
	}
	for _, broken = range []bool{false, false, true, true, false, false} {
		_ = s.run(describe)
	}
	kubetest.Eventually(t, "there are four events", func() error {
		s.mu.Lock()
		got = slices.Clone(s.events)
		s.mu.Unlock()
		if len(got) < 4 {
			return fmt.Errorf("events are %q", got)
		}
		return nil
	})
	slices.Sort(got)
	want := []string{
		"NodeFailed a: panic: a bug", "NodeRecovered a is ready again", "NotReady a: panic: a bug",
		"Ready 1 nodes are ready",
	}
	if got = slices.Compact(got); !slices.Equal(got, want) {
		t.Errorf("events are %q", got)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A node that fails, waits, and is ready again has recovered.
func TestRecoveryThatTakesTime(t *testing.T) {
	s := newScene(t)
	recorder := &event.Recorder{Client: s.gardens.Client(), Controller: "example.com/gardener"}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- recorder.Run(ctx) }()
	monitor := NewMonitor(recorder, nil)
	for _, state := range []State{Ready, Failed, Waiting, Ready} {
		_ = s.run(func(p *Plan) {
			p.Monitor = monitor
			Object(p, "a", s.handle, func(Inputs) (*plant, error) {
				if state == Failed {
					return nil, errors.New("no room")
				}
				return named("a"), nil
			}).ReadyWhen(func(*plant) ready.State {
				if state == Waiting {
					return ready.State{Phase: ready.Waiting}
				}
				return ready.State{Phase: ready.Ready}
			})
		})
		s.is("a", state, "")
	}
	kubetest.Eventually(t, "there is the event of the recovery", func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !slices.Contains(s.events, "NodeRecovered a is ready again") {
			return fmt.Errorf("events are %q", s.events)
		}
		return nil
	})
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
