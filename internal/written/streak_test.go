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
			if s, tell = s.Next(now); tell {
				told = append(told, i+1)
			}
		}
		if !slices.Equal(told, test.told) {
			t.Errorf("%s: told at %v, want %v", name, told, test.told)
		}
	}
}
