package written_test

import (
	"slices"
	"testing"
	"time"

	"github.com/pintle-go/pintle/internal/written"
)

// A streak is told at its fifth time and then every five minutes. A gap of more than an hour
// ends it.
func TestStreak(t *testing.T) {
	every := func(d time.Duration, n int) []time.Duration { return slices.Repeat([]time.Duration{d}, n) }
	for name, test := range map[string]struct {
		gaps []time.Duration
		told []int // which times
	}{
		"once":             {every(0, 1), nil},
		"four times":       {every(time.Second, 4), nil},
		"five times":       {every(time.Second, 5), []int{5}},
		"quickly":          {every(100*time.Millisecond, 3050), []int{5, 3005}},
		"by the hour":      {every(time.Hour, 7), []int{5, 6, 7}},
		"seldom":           {every(time.Hour+1, 100), nil},
		"five in a year":   {every(2000*time.Hour, 5), nil},
		"a gap":            {slices.Concat(every(time.Minute, 4), every(2*time.Hour, 1), every(time.Minute, 3)), nil},
		"again":            {slices.Concat(every(time.Minute, 5), every(2*time.Hour, 1), every(time.Minute, 4)), []int{5, 10}},
		"as soon as again": {every(30*time.Second, 26), []int{5, 15, 25}},
	} {
		var s written.Streak
		var told []int
		now := time.Unix(1_000_000, 0)
		for i, gap := range test.gaps {
			now = now.Add(gap)
			var tell bool
			if s, tell = s.Next(now, written.Fight); tell {
				told = append(told, i+1)
			}
		}
		if !slices.Equal(told, test.told) {
			t.Errorf("%s: told at %v, want %v", name, told, test.told)
		}
	}
}

// Of a streak of which little is known is told later, when more is known, or at last.
func TestStreakWaits(t *testing.T) {
	for name, test := range map[string]struct {
		known int // the first time of which more is known; 0: none
		want  int
	}{"at once": {1, 5}, "later": {9, 9}, "never": {0, 20}} {
		var s written.Streak
		told, now := 0, time.Unix(1_000_000, 0)
		for i := 1; told == 0 && i < 100; i++ {
			now = now.Add(time.Second)
			before := s
			var tell bool
			if s, tell = s.Next(now, written.Fight); tell && (test.known == 0 || i < test.known) {
				var waits bool
				if s, waits = s.Wait(before); waits {
					tell = false
				}
			}
			if tell {
				told = i
			}
		}
		if told != test.want {
			t.Errorf("%s: told at %d, want %d", name, told, test.want)
		}
	}
}
