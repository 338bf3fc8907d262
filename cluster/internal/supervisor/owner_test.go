package supervisor

import (
	"testing"
	"time"
)

func TestTenure(t *testing.T) {
	now := time.Now()
	ended := func(ago time.Duration) time.Time { return now.Add(-ago) }
	for name, c := range map[string]struct {
		keep         time.Duration
		since        time.Time
		alive, ready bool
		want         effect
	}{
		"the owner runs":                        {time.Minute, time.Time{}, true, true, stay},
		"the owner runs, not kept":              {0, time.Time{}, true, true, stay},
		"the owner has ended":                   {time.Minute, time.Time{}, false, true, empty},
		"the owner has ended, not kept":         {0, time.Time{}, false, true, leave},
		"the owner has ended before it is used": {time.Minute, time.Time{}, false, false, leave},
		"kept":                                  {time.Minute, ended(59 * time.Second), false, true, stay},
		"kept long enough":                      {time.Minute, ended(time.Minute), false, true, leave},
	} {
		tenure := tenure{Ownership: Ownership{Keep: c.keep}, since: c.since}
		if got := tenure.next(c.alive, c.ready, now); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
