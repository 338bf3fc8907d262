// Package bubble checks properties of random histories in virtual time.
package bubble

import (
	"errors"
	"flag"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// Check is [rapid.Check] in bubbles of package synctest. A history that takes long to check
// has a cost above 1: so many times fewer histories are checked.
//
// rapid ends its checks after a day by the clock, and in a bubble a few histories can take
// a day. So there are as many bubbles as it takes to check the wanted number of histories.
// Check begins no bubble that could last longer than go test allows.
func Check(t *testing.T, cost int, prop func(rt *rapid.T, t *testing.T)) {
	t.Helper()
	wanted, err := wantedChecks()
	if err != nil {
		t.Fatal(err)
	}
	var longest time.Duration
	for done := 0; done*cost < wanted && !t.Failed(); {
		begun := time.Now()
		if deadline, ok := t.Deadline(); ok && done > 0 && deadline.Sub(begun) < 3*longest {
			t.Logf("checked %d histories in the time of go test", done)
			return
		}
		synctest.Test(t, func(t *testing.T) {
			rapid.Check(bubbled{t}, func(rt *rapid.T) {
				if done*cost < wanted { // another bubble may have checked most of them
					prop(rt, t)
					done++
				}
			})
		})
		longest = max(longest, time.Since(begun))
	}
}

// bubbled keeps rapid from asking for the deadline, which bubbles do not have.
type bubbled struct{ *testing.T }

// wantedChecks returns the value of rapid's flag.
func wantedChecks() (int, error) {
	f := flag.Lookup("rapid.checks")
	if f == nil {
		return 0, errors.New("find the flag -rapid.checks of package rapid")
	}
	n, err := strconv.Atoi(f.Value.String())
	if err != nil {
		return 0, fmt.Errorf("read the flag -rapid.checks: %w", err)
	}
	return n, nil
}
