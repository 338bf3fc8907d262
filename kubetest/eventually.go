package kubetest

import (
	"testing"
	"time"
)

const (
	patience     = 5 * time.Minute        // the longest wait
	margin       = 10 * time.Second       // the part of go test's time that is left to the cleanup
	firstPause   = 5 * time.Millisecond   // between the first two calls
	longestPause = 250 * time.Millisecond // each pause is twice as long as the one before, up to this
)

// Eventually calls f until it returns nil. Each error says what f has seen instead, and
// the last one is in the failure. The text of the condition completes "wait until …":
//
//	kubetest.Eventually(t, "the pod runs", func() error {
//		pod, err := pods.Get(t.Context(), "web")
//		if err == nil && pod.Status.Phase != corev1.PodRunning {
//			err = fmt.Errorf("it is %s", pod.Status.Phase)
//		}
//		return err
//	})
//
// It fails the test after five minutes, or ten seconds before go test would end it
// (-timeout), whichever is earlier. So a failure means that the condition is wrong, and
// not that the machine is busy. It also fails if the context of the test ends, except in
// a cleanup function, which begins after that end. The time is virtual in a bubble of
// package synctest.
//
// The calls come one after the other, on the goroutine of the caller: 5 ms after the
// first, then less often, down to four a second. So f may end the test itself, with
// FailNow, if the condition can no longer become true. A call of f is not interrupted: if
// f can block, it needs a limit of its own. The last call begins after the limit.
//
// Eventually is for conditions that nothing reports. If a watch reports them, Until of
// kube's types sees every state.
func Eventually(t testing.TB, what string, f func() error) {
	t.Helper()
	begun := time.Now()
	end := begun.Add(patience)
	if last, ok := deadline(t); ok && last.Add(-margin).Before(end) {
		end = last.Add(-margin)
	}
	cleanup := t.Context().Err() != nil
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		last := !time.Now().Before(end)
		err := f()
		took := time.Since(begun).Round(time.Millisecond)
		switch {
		case err == nil:
			return
		case last:
			t.Fatalf("wait until %s: not within %s; last seen: %v", what, took, err)
		case !cleanup && t.Context().Err() != nil:
			t.Fatalf("wait until %s: the context of the test ended after %s; last seen: %v", what, took, err)
		}
		// A context from outside a bubble would stop the bubble's time if it were waited for here.
		time.Sleep(min(pause, max(0, time.Until(end))))
	}
}

// deadline returns when go test ends the test, if it does.
func deadline(t testing.TB) (end time.Time, ok bool) {
	has, ok := t.(interface{ Deadline() (time.Time, bool) })
	if !ok {
		return time.Time{}, false // a benchmark
	}
	defer func() {
		if recover() != nil { // the test is in a bubble
			end, ok = time.Time{}, false
		}
	}()
	return has.Deadline()
}
