package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/robfig/cron/v3"
	"pgregory.net/rapid"

	v2 "github.com/pintle-go/pintle/operators/cronjob/api/v2"
)

// noon is an arbitrary time at which a schedule of each hour is due.
var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// hourly is a schedule of each hour.
var hourly = v2.Schedule{Minute: "0"}

// TestDecide has the decision for each situation.
func TestDecide(t *testing.T) {
	at := func(hour, minute int) time.Time { return time.Date(2026, 3, 2, hour, minute, 0, 0, time.UTC) }
	deadline := func(seconds int64) *int64 { return &seconds }
	for name, test := range map[string]struct {
		spec   v2.Spec
		after  time.Time
		active int
		now    time.Time
		want   decision
	}{
		"before the first time":     {v2.Spec{}, at(12, 1), 0, at(12, 59), decision{next: at(13, 0)}},
		"at the time":               {v2.Spec{}, at(12, 1), 0, at(13, 0), decision{start: at(13, 0), next: at(14, 0)}},
		"after the time":            {v2.Spec{}, at(12, 1), 0, at(13, 20), decision{start: at(13, 0), next: at(14, 0)}},
		"the Job was started":       {v2.Spec{}, at(13, 0), 1, at(13, 20), decision{next: at(14, 0)}},
		"several times have passed": {v2.Spec{}, at(3, 0), 0, at(13, 20), decision{start: at(13, 0), next: at(14, 0)}},
		"within the deadline": {
			v2.Spec{StartingDeadlineSeconds: deadline(60)}, at(3, 0), 0, at(13, 1), decision{start: at(13, 0), next: at(14, 0)},
		},
		"after the deadline": {
			v2.Spec{StartingDeadlineSeconds: deadline(60)}, at(3, 0), 0, at(13, 2), decision{missed: at(13, 0), next: at(14, 0)},
		},
		"the earlier Job runs, Allow": {
			v2.Spec{ConcurrencyPolicy: v2.Allow}, at(12, 0), 1, at(13, 0), decision{start: at(13, 0), next: at(14, 0)},
		},
		"the earlier Job runs, Forbid": {
			v2.Spec{ConcurrencyPolicy: v2.Forbid}, at(12, 0), 1, at(13, 0), decision{waits: at(13, 0), next: at(14, 0)},
		},
		"the earlier Job has ended, Forbid": {
			v2.Spec{ConcurrencyPolicy: v2.Forbid}, at(12, 0), 0, at(13, 10), decision{start: at(13, 0), next: at(14, 0)},
		},
		"the earlier Job has ended after the deadline, Forbid": {
			v2.Spec{ConcurrencyPolicy: v2.Forbid, StartingDeadlineSeconds: deadline(60)}, at(12, 0), 0, at(13, 10),
			decision{missed: at(13, 0), next: at(14, 0)},
		},
		"the earlier Job runs, Replace": {
			v2.Spec{ConcurrencyPolicy: v2.Replace}, at(12, 0), 2, at(13, 0),
			decision{start: at(13, 0), replaces: true, next: at(14, 0)},
		},
		"nothing runs, Replace": {
			v2.Spec{ConcurrencyPolicy: v2.Replace}, at(12, 0), 0, at(13, 0), decision{start: at(13, 0), next: at(14, 0)},
		},
		"suspended":              {v2.Spec{Suspend: true}, at(3, 0), 1, at(13, 0), decision{}},
		"the clock was put back": {v2.Spec{}, at(15, 0), 0, at(13, 20), decision{next: at(14, 0)}},
	} {
		times, err := parse(hourly)
		if err != nil {
			t.Fatal(err)
		}
		got := decide(times, situation{spec: test.spec, after: test.after, active: test.active, now: test.now})
		if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(decision{})); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}

// TestLatest compares the search for the latest time with one that looks at each time.
func TestLatest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := v2.Schedule{
			Minute: rapid.SampledFrom([]string{"", "0", "*/7", "59"}).Draw(t, "minute"),
			Hour:   rapid.SampledFrom([]string{"", "3", "*/5"}).Draw(t, "hour"),
			Month:  rapid.SampledFrom([]string{"", "2", "12"}).Draw(t, "month"),
		}
		times, err := parse(s)
		if err != nil {
			t.Fatal(err)
		}
		now := noon.Add(time.Duration(rapid.IntRange(-5000, 5000).Draw(t, "now")) * time.Minute)
		after := now.Add(-time.Duration(rapid.IntRange(-100, 100_000).Draw(t, "since")) * time.Minute)
		var want time.Time
		for at := times.Next(after); !at.IsZero() && !at.After(now); at = times.Next(at) {
			want = at
		}
		if got := latest(times, after, now); !got.Equal(want) {
			t.Errorf("%+v after %s at %s: %s, want %s", s, after, now, got, want)
		}
	})
}

// counted counts how often a schedule is asked.
type counted struct {
	cron.Schedule
	n *int
}

func (c counted) Next(t time.Time) time.Time {
	*c.n++
	return c.Schedule.Next(t)
}

// TestLatestIsCheap asks for the latest of half a million times.
func TestLatestIsCheap(t *testing.T) {
	times, err := parse(v2.Schedule{Minute: "*"})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	if got := latest(counted{times, &n}, noon.AddDate(-1, 0, 0), noon); !got.Equal(noon) || n > 100 {
		t.Errorf("%s after %d steps", got, n)
	}
}

// TestSenselessSchedules are errors that name the field's text.
func TestSenselessSchedules(t *testing.T) {
	for _, s := range []v2.Schedule{{Minute: "60"}, {Hour: "x"}, {DayOfMonth: "0"}, {Month: "13"}, {DayOfWeek: "8"}, {Minute: "@hourly"}} {
		if _, err := parse(s); err == nil {
			t.Errorf("%s is accepted", fmt.Sprintf("%+v", s))
		}
	}
}
