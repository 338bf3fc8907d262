package kube

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Trouble is what a watch or a store reports while it goes on by itself: when
// the trouble starts, every five minutes while it lasts, and when it is over.
// Troubles that come and go quickly are reported less often.
type Trouble struct {
	// Err is the latest failure.
	Err   error
	Since time.Time
	// Tries is the number of failures so far.
	Tries int
	// Over is true in the report that it works again.
	Over bool
}

func (t *Trouble) Error() string {
	lasted := time.Since(t.Since).Round(time.Millisecond)
	switch {
	case t.Over:
		return fmt.Sprintf("recovered after %s and %d tries from: %v", lasted, t.Tries, t.Err)
	case t.Tries <= 1:
		return fmt.Sprintf("%v; trying again", t.Err)
	}
	return fmt.Sprintf("%v; trying again since %s, %d times", t.Err, lasted, t.Tries)
}

func (t *Trouble) Unwrap() error { return t.Err }

const (
	troubleAgainAfter = 5 * time.Minute
	minDelay          = 250 * time.Millisecond
	maxDelay          = 30 * time.Second
	// healthyAfter is how long it must go well for the delay to start anew.
	healthyAfter = 30 * time.Second
	// flapsReported is how many troubles in a row, of which none begins five
	// minutes after the end of the one before, are each reported.
	flapsReported = 3
)

// troubles keeps what a reflector has to report and how long it waits.
type troubles struct {
	now      *Trouble  // nil: all is well
	reported time.Time // the last report
	flaps    int       // troubles in a row
	told     bool      // now was reported
	ended    time.Time // the end of the last trouble
	tries    int       // failures that the delay grows with
	wellFrom time.Time
}

// failed notes a failure and returns a report, if one is due.
func (t *troubles) failed(err error) error {
	if !t.wellFrom.IsZero() && time.Since(t.wellFrom) >= healthyAfter {
		t.tries = 0
	}
	t.wellFrom = time.Time{}
	t.tries++
	recent := time.Since(t.reported) < troubleAgainAfter
	if t.now == nil {
		t.now, t.told = &Trouble{Since: time.Now()}, false
		if t.flaps++; time.Since(t.ended) >= troubleAgainAfter {
			t.flaps = 1
		}
	}
	t.now.Err = err
	t.now.Tries++
	if recent && (t.now.Tries > 1 || t.flaps > flapsReported) {
		return nil
	}
	t.reported, t.told = time.Now(), true
	report := *t.now
	return &report
}

// over notes that it works and returns a report if it had not.
func (t *troubles) over() error {
	if t.now == nil {
		if t.wellFrom.IsZero() {
			t.wellFrom = time.Now()
		}
		return nil
	}
	report, told := *t.now, t.told
	report.Over = true
	t.now, t.wellFrom, t.ended = nil, time.Now(), time.Now()
	if !told {
		return nil
	}
	return &report
}

// delay is how long to wait before the next try: it doubles with every failure
// and is spread over its upper half.
func (t *troubles) delay() time.Duration {
	d := maxDelay
	if shift := t.tries - 1; shift < 7 {
		d = min(maxDelay, minDelay<<max(shift, 0))
	}
	return d/2 + rand.N(d/2+1)
}
