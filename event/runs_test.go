package event

import (
	"context"
	"net/http"
	"testing"
	"time"
)

// begin runs a recorder. The returned function ends that.
func begin(t *testing.T, r *Recorder) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

// Two programs may share a recorder. When one of them ends, the other one writes the
// events.
func TestTwoRuns(t *testing.T) {
	recording(t, func(t *testing.T, s *server, r *Recorder, stop func()) {
		end := begin(t, r)
		r.Normal(pod("a"), "Started", "x")
		time.Sleep(time.Second)
		stop()
		r.Normal(pod("b"), "Started", "x")
		time.Sleep(time.Second)
		expect(t, s, map[string]int32{"Started a": 1, "Started b": 1})
		r.Normal(pod("c"), "Started", "x")
		end()
		expect(t, s, map[string]int32{"Started a": 1, "Started b": 1, "Started c": 1})
	})
}

// A run that waits for another one ends with its context.
func TestSecondRunEnds(t *testing.T) {
	recording(t, func(t *testing.T, s *server, r *Recorder, stop func()) {
		end := begin(t, r)
		time.Sleep(time.Second)
		begun := time.Now()
		end()
		if took := time.Since(begun); took > 0 {
			t.Errorf("it took %s", took)
		}
		r.Normal(pod("a"), "Started", "x")
		time.Sleep(time.Second)
		expect(t, s, map[string]int32{"Started a": 1})
	})
}

// A request that is broken off at the end does not hold up its namespace when the recorder
// runs again, nor does its event get lost.
func TestRunAgainAfterARequestWasBrokenOff(t *testing.T) {
	recording(t, func(t *testing.T, s *server, r *Recorder, stop func()) {
		s.set(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		})
		r.Normal(pod("a"), "Started", "x")
		time.Sleep(time.Second)
		stop()
		s.set(nil)
		end := begin(t, r)
		time.Sleep(time.Second)
		r.Normal(pod("b"), "Started", "x")
		time.Sleep(time.Minute)
		expect(t, s, map[string]int32{"Started a": 1, "Started b": 1})
		end()
	})
}
