package kube

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Trouble is what a watch or a store reports while it goes on by itself: when
// the trouble starts, when its cause becomes another, every five minutes while it
// lasts, and when it is over. Troubles that come and go quickly are reported less
// often, and a server that says when to ask again only after five seconds.
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
	// patience is how long a server may say when to ask again until that is a
	// trouble. It does so for a moment when a kind has just been installed.
	patience = 5 * time.Second
)

// troubles keeps what a reflector has to report and how long it waits.
type troubles struct {
	now      *Trouble  // nil: all is well
	reported time.Time // the last report
	flaps    int       // troubles in a row
	told     bool      // now was reported
	causes   []string  // those of now that were reported
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
		t.now, t.told, t.causes = &Trouble{Since: time.Now()}, false, nil
		if t.flaps++; time.Since(t.ended) >= troubleAgainAfter {
			t.flaps = 1
		}
	}
	t.now.Err = err
	t.now.Tries++
	cause := causeOf(err)
	_, postponed := apierrors.SuggestsClientDelay(err)
	switch {
	case postponed && !t.told && time.Since(t.now.Since) < patience:
		return nil
	case !recent:
	case t.flaps > flapsReported, slices.Contains(t.causes, cause):
		return nil
	}
	t.reported, t.told, t.causes = time.Now(), true, append(t.causes, cause)
	report := *t.now
	return &report
}

// causeOf tells troubles apart that need different things done about them.
func causeOf(err error) string {
	for _, cause := range []error{ErrUnreachable, ErrNotServed, errSilent, errBroken, errStale} {
		if errors.Is(err, cause) {
			return cause.Error()
		}
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return strconv.Itoa(int(status.Status().Code))
	}
	return ""
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
