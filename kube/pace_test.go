package kube

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube/internal/wire"
)

func TestPaceAfterAFailure(t *testing.T) {
	code := func(code int32, seconds int32) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code,
			Details: &metav1.StatusDetails{RetryAfterSeconds: seconds}}}
	}
	away := fmt.Errorf("%w: refused", ErrUnreachable)
	for name, tc := range map[string]struct {
		err  error
		took time.Duration
		want pace
	}{
		"refused":                       {away, 0, cheap},
		"no connection for a while":     {away, 10 * time.Second, brisk},
		"bad gateway":                   {code(502, 0), 0, cheap},
		"unavailable":                   {code(503, 0), 0, cheap},
		"unavailable, after work":       {code(503, 0), 5 * time.Second, patient},
		"unavailable, asks for time":    {code(503, 1), 0, patient},
		"gateway's patience ended":      {code(504, 0), time.Minute, patient},
		"too many requests":             {code(429, 0), 0, patient},
		"internal error":                {code(500, 0), 0, patient},
		"not found":                     {ErrNotServed, 0, patient},
		"broken":                        {fmt.Errorf("%w: EOF", errBroken), 0, cheap},
		"answer lost":                   {errLost, 0, cheap},
		"answer lost, after a minute":   {errLost, time.Minute, patient},
		"something else than an answer": {wire.ErrAnswer, 0, patient},
		"unknown":                       {errors.New("unknown"), 0, patient},
	} {
		if got := paceAfter(tc.err, tc.took); got != tc.want {
			t.Errorf("%s: pace %d, want %d", name, got, tc.want)
		}
	}
}

func TestDelaysOfEachPaceGrowByThemselves(t *testing.T) {
	var b backOff
	for range 20 {
		if d := b.delay(cheap); d > cheap.most() {
			t.Errorf("delay of %s", d)
		}
	}
	for _, most := range []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second} {
		if d := b.delay(patient); d < most/2 || d > most {
			t.Errorf("after an outage, delay of %s, want %s to %s", d, most/2, most)
		}
	}
	for range 20 {
		if d := b.delay(patient); d > maxDelay {
			t.Errorf("delay of %s", d)
		}
	}
	if d := b.delay(patient); d < maxDelay/2 {
		t.Errorf("at last, delay of %s", d)
	}
	if d := b.delay(atOnce); d >= reconnectWithin {
		t.Errorf("after a watch that worked, delay of %s", d)
	}
	for _, d := range []time.Duration{-1, -1 << 63, 0} {
		if got := jitter(d); got != 0 {
			t.Errorf("jitter of %s is %s", d, got)
		}
		if got := spread(d); got != 0 {
			t.Errorf("spread of %s is %s", d, got)
		}
	}
}

// TestOutageThatSwallowsPackets makes connections time out, as they do if a network drops
// packets.
func TestOutageThatSwallowsPackets(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, s *apiServer, watch func(func(narrow)) *follower) {
		f := watch(nil)
		f.taken()
		s.setIntercept(func(int, *http.Request) (*http.Response, error) {
			time.Sleep(10 * time.Second)
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
		})
		s.cutWatches()
		time.Sleep(10 * time.Minute)
		s.setIntercept(nil)
		s.put(key("a"), "one")
		time.Sleep(10*time.Second + brisk.most()) // the last attempt ends
		if lines := names(f.taken()); len(lines) == 0 || lines[0] != "ADDED default/a" {
			t.Errorf("events: %q", lines)
		}
	})
}

// TestMetadataOfAServerThatKnowsNoPartialObjects checks that views of metadata can read
// whole objects.
func TestMetadataOfAServerThatKnowsNoPartialObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.put(key("a"), "one")
		s.intercept = func(_ int, r *http.Request) (*http.Response, error) {
			accepts := strings.Split(r.Header.Get("Accept"), ",")
			if accepts[len(accepts)-1] != typeJSON {
				return status(406, metav1.StatusReasonNotAcceptable, "only application/json"), nil
			}
			plain := r.Clone(r.Context())
			plain.Header.Set("Accept", typeJSON)
			return s.serve(plain)
		}
		c := s.client(t)
		store, _ := startStore(t, onlyMeta(c))
		f := follow(t, onlyMeta(c).Watch, noNote)
		wantLines(t, "events", f.taken(), "ADDED default/a", "SYNCED")
		s.put(key("b"), "one")
		wantLines(t, "events", f.taken(), "ADDED default/b")
		if o, err := store.Get(t.Context(), key("b")); err != nil || o.Name != "b" || o.Kind != "ConfigMap" {
			t.Errorf("got %v, %v", o, err)
		}
		if o, err := onlyMeta(c).In("default").Get(t.Context(), "a"); err != nil || o.Name != "a" {
			t.Errorf("got %v, %v", o, err)
		}
		if r := f.reports(); len(r) > 0 {
			t.Errorf("reports: %v", r)
		}
	})
}
