package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// A terminal error is not retried until something changes.
func TestTerminal(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("bad", func(*gizmo) {})
		s.start(Options{}, Controller[gizmo]{Reconcile: func(context.Context, *gizmo) (Action, error) {
			return Done, fmt.Errorf("size: %w", Terminal(errBroken))
		}})
		s.sleep(24 * time.Hour)
		if n := len(s.ran("")); n != 1 {
			t.Errorf("%d reconciles, want 1", n)
		}
		s.put("bad", func(g *gizmo) { g.Spec.Size = 1 })
		s.sleep(time.Hour)
		if n := len(s.ran("")); n != 2 {
			t.Errorf("%d reconciles after a change, want 2", n)
		}
	})
}

// A terminal error is retried at the resync, with any action beside it.
func TestTerminalIsResynced(t *testing.T) {
	for name, action := range map[string]Action{"Done": Done, "Await": Await, "After": After(time.Minute)} {
		onStage(t, func(s *stage) {
			s.put("bad", func(*gizmo) {})
			s.start(Options{}, Controller[gizmo]{Resync: time.Hour, Reconcile: func(context.Context, *gizmo) (Action, error) {
				return action, Terminal(errBroken)
			}})
			s.sleep(24 * time.Hour)
			if n := len(s.ran("bad")); n < 22 || n > 28 {
				t.Errorf("%s: %d reconciles in a day, want one an hour", name, n)
			}
		})
	}
}

// An action beside an error is honoured: the retry comes at its time if the back-off is
// longer, and at the end of the back-off if that is shorter. The back-off grows with the
// failures as ever.
func TestActionBesideAnError(t *testing.T) {
	for name, c := range map[string]struct {
		action Action
		most   time.Duration // between two reconciles, after the first failures
		least  time.Duration
	}{
		"a shorter action": {After(7 * time.Second), 7 * time.Second, 7 * time.Second},
		"a longer action":  {After(24 * time.Hour), 5 * time.Minute, 150 * time.Second},
		"at once":          {After(0), 50 * time.Millisecond, 25 * time.Millisecond},
		"Done":             {Done, 5 * time.Minute, 150 * time.Second},
		"Await":            {Await, 5 * time.Minute, 150 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.put("bad", func(*gizmo) {})
				s.start(Options{}, Controller[gizmo]{Reconcile: func(context.Context, *gizmo) (Action, error) {
					return c.action, errBroken
				}})
				s.sleep(min(2*time.Hour, 40*c.most))
				all := s.ran("bad")
				if len(all) < 25 {
					t.Fatalf("%d reconciles", len(all))
				}
				if first := all[1].at - all[0].at; first > 50*time.Millisecond {
					t.Errorf("the first retry comes after %s", first)
				}
				for i, r := range all[20:] {
					between := r.at - all[19+i].at
					if between > c.most || between < c.least {
						t.Errorf("a reconcile follows after %s, want %s to %s", between, c.least, c.most)
					}
					if got := r.reasons(); !slices.Equal(got, []Reason{Retried}) || !errors.Is(r.causes[0].Err, errBroken) {
						t.Errorf("its causes are %v", r.causes)
					}
				}
			})
		})
	}
}

// After reconciles at its time, or earlier if something changes. Await reconciles only at
// a change. Done reconciles at the resync.
func TestActions(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("after", func(*gizmo) {})
		s.put("await", func(*gizmo) {})
		s.put("done", func(*gizmo) {})
		s.start(Options{}, Controller[gizmo]{Resync: time.Hour, Reconcile: func(_ context.Context, g *gizmo) (Action, error) {
			switch g.Name {
			case "after":
				return After(5 * time.Minute), nil
			case "await":
				return Await, nil
			}
			return Done, nil
		}})
		s.sleep(2 * time.Minute)
		s.put("after", func(g *gizmo) { g.Spec.Size = 7 })
		s.sleep(22 * time.Minute)
		var at []time.Duration
		for _, r := range s.ran("after") {
			at = append(at, r.at)
		}
		want := []time.Duration{
			0, 2 * time.Minute, 7 * time.Minute, 12 * time.Minute, 17 * time.Minute, 22 * time.Minute,
		}
		if !slices.Equal(at, want) {
			t.Errorf("reconciled at %v, want %v", at, want)
		}
		if got := s.ran("after")[1]; len(got.causes) != 1 || got.causes[0].String() != "Gizmo default/after modified" {
			t.Errorf("the change is one of the causes %v", got.causes)
		} else if fields, err := got.causes[0].Change.Fields(); err != nil || !slices.Equal(fields, []string{"spec.size"}) {
			t.Errorf("the changed fields are %v, %v", fields, err)
		}
		s.sleep(24 * time.Hour)
		if n := len(s.ran("await")); n != 1 {
			t.Errorf("an awaiting object was reconciled %d times", n)
		}
		if n := len(s.ran("done")); n < 22 || n > 28 {
			t.Errorf("%d resyncs in a day, one an hour", n)
		}
		for _, r := range s.ran("done")[1:] {
			if got := r.reasons(); !slices.Equal(got, []Reason{Resynced}) {
				t.Errorf("the reason of a resync is %v", got)
			}
		}
	})
}

func TestSooner(t *testing.T) {
	second, minute := After(time.Second), After(time.Minute)
	for _, c := range []struct{ a, b, want Action }{
		{Done, Done, Done}, {Done, Await, Await}, {Await, Await, Await},
		{Done, second, second}, {Await, second, second}, {second, minute, second}, {After(0), second, After(0)},
	} {
		if got := Sooner(c.a, c.b); got != c.want {
			t.Errorf("Sooner(%d, %d) is %d, want %d", c.a, c.b, got, c.want)
		}
		if got := Sooner(c.b, c.a); got != c.want {
			t.Errorf("Sooner(%d, %d) is %d, want %d", c.b, c.a, got, c.want)
		}
	}
}
