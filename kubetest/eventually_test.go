package kubetest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pintle-go/pintle/kubetest"
)

// watched is a test in which another one sees the failure.
type watched struct {
	testing.TB
	ctx     context.Context //nolint:containedctx // the context of the test that it plays
	left    time.Duration   // until go test ends it; zero: it does not
	failure string
}

func (w *watched) Context() context.Context { return w.ctx }

func (w *watched) Deadline() (time.Time, bool) { return time.Now().Add(w.left), w.left > 0 }

func (w *watched) Fatalf(format string, args ...any) {
	w.failure = fmt.Sprintf(format, args...)
	w.FailNow()
}

func (w *watched) FailNow() { runtime.Goexit() }

// run calls f as the body of the test, and returns the failure.
func (w *watched) run(f func()) string {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
	return w.failure
}

func TestEventually(t *testing.T) {
	for name, test := range map[string]struct {
		left, ends, holds time.Duration // until go test ends it, its context ends, and the condition holds
		want              string
		took              time.Duration
	}{
		"at once":            {0, time.Hour, 0, "", 0},
		"after a while":      {0, time.Hour, 12 * time.Millisecond, "", 15 * time.Millisecond},
		"at the last moment": {0, time.Hour, 5 * time.Minute, "", 5 * time.Minute},
		"too late": {
			0, time.Hour, time.Hour, "wait until it rains: not within 5m0s; last seen: sun for 5m0s", 5 * time.Minute,
		},
		"go test has more time": {10 * time.Minute, time.Hour, time.Minute, "", time.Minute + 65*time.Millisecond},
		"go test ends soon": {
			time.Minute, time.Hour, time.Hour, "wait until it rains: not within 50s; last seen: sun for 50s", 50 * time.Second,
		},
		"go test ends now": {
			time.Second, time.Hour, time.Hour, "wait until it rains: not within 0s; last seen: sun for 0s", 0,
		},
		"the test ends": {
			0, 10 * time.Millisecond, time.Hour,
			"wait until it rains: the context of the test ended after 15ms; last seen: sun for 15ms", 15 * time.Millisecond,
		},
		"a cleanup": {0, 0, time.Second, "", 1065 * time.Millisecond},
		"a cleanup too late": {
			0, 0, time.Hour, "wait until it rains: not within 5m0s; last seen: sun for 5m0s", 5 * time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), test.ends)
				defer cancel()
				w := &watched{TB: t, ctx: ctx, left: test.left}
				got := w.run(func() {
					kubetest.Eventually(w, "it rains", func() error {
						if took := time.Since(begun); took < test.holds {
							return fmt.Errorf("sun for %s", took)
						}
						return nil
					})
				})
				if took := time.Since(begun); got != test.want || took != test.took {
					t.Errorf("after %s: %q, want after %s: %q", took, got, test.took, test.want)
				}
			})
		})
	}
}

// The first calls come soon after each other, the others four times a second.
func TestEventuallyPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pauses []time.Duration
		last := time.Now()
		kubetest.Eventually(t, "there are ten calls", func() error {
			pauses = append(pauses, time.Since(last))
			last = time.Now()
			if len(pauses) < 10 {
				return errors.New("fewer")
			}
			return nil
		})
		if got, want := fmt.Sprint(pauses), "[0s 5ms 10ms 20ms 40ms 80ms 160ms 250ms 250ms 250ms]"; got != want {
			t.Errorf("the pauses are %s, want %s", got, want)
		}
	})
}

// In a bubble, a test from outside it can wait as well: its context does not stop the virtual time.
func TestEventuallyOfATestOutside(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		var rains atomic.Bool
		time.AfterFunc(time.Minute, func() { rains.Store(true) })
		kubetest.Eventually(t, "it rains", func() error {
			if !rains.Load() {
				return errors.New("sun")
			}
			return nil
		})
	})
}

// What ends f ends the test, without another call.
func TestEventuallyEnds(t *testing.T) {
	w := &watched{TB: t, ctx: t.Context()}
	calls := 0
	var recovered any
	for _, end := range []func(){
		func() { w.Fatalf("it will never rain") },
		func() { panic("lightning") },
	} {
		w.run(func() {
			defer func() { recovered = recover() }()
			kubetest.Eventually(w, "it rains", func() error {
				calls++
				end()
				return errors.New("sun")
			})
			t.Error("it goes on")
		})
	}
	if calls != 2 || w.failure != "it will never rain" || recovered != "lightning" {
		t.Errorf("%d calls, %q, %v", calls, w.failure, recovered)
	}
}

func ExampleEventually() {
	_ = func(t *testing.T, read func() (string, error)) { // a function such as TestGreeting
		kubetest.Eventually(t, "the program greets", func() error {
			said, err := read()
			if err == nil && !strings.HasPrefix(said, "Hello") {
				err = fmt.Errorf("it says %q", said)
			}
			return err
		})
	}
}
