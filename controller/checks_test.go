package controller

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// The program's own checks show in /healthz and /readyz, each in its own. A check that
// panics or hangs has failed.
func TestChecks(t *testing.T) {
	well := func(context.Context) error { return nil }
	ill := func(context.Context) error { return errBroken }
	slow := func(d time.Duration) func(context.Context) error {
		return func(context.Context) error { time.Sleep(d); return nil }
	}
	for name, test := range map[string]struct {
		check         Check
		health, ready int
		says          string
	}{
		"well":       {Check{Name: "own", Healthy: well, Ready: well}, 200, 200, ""},
		"unhealthy":  {Check{Name: "own", Healthy: ill}, 503, 200, "own: broken"},
		"not ready":  {Check{Name: "own", Healthy: well, Ready: ill}, 200, 503, "own: broken"},
		"panics":     {Check{Name: "own", Healthy: func(context.Context) error { panic("oh") }}, 503, 200, "own: panic: oh"},
		"hangs":      {Check{Name: "own", Healthy: slow(time.Minute)}, 503, 200, "own: no answer within 5s"},
		"is patient": {Check{Name: "own", Ready: slow(4 * time.Second)}, 200, 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &program{Options: Options{Checks: []Check{test.check}}}
				p.opened.Store(true)
				h, r := httptest.NewRecorder(), httptest.NewRecorder()
				ask := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
				p.healthz(h, ask)
				p.readyz(t.Context(), r, ask)
				if h.Code != test.health || r.Code != test.ready {
					t.Errorf("/healthz answers %d, /readyz %d", h.Code, r.Code)
				}
				if said := h.Body.String() + r.Body.String(); !strings.Contains(said, test.says) {
					t.Errorf("they say %q", said)
				}
				time.Sleep(time.Hour) // until no check hangs
			})
		})
	}
	same := Check{Name: "a", Ready: well}
	for _, bad := range [][]Check{{{Ready: well}}, {{Name: "a"}}, {same, same}} {
		if err := Run(t.Context(), Options{Checks: bad}); err == nil || errors.Is(err, errBroken) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// A check that hangs is not called again before it has returned, however often it is
// requested. One client that goes away does not make it fail for others.
func TestCheckThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		var hangs atomic.Bool
		hangs.Store(true)
		p := &program{Options: Options{Checks: []Check{{Name: "own", Healthy: func(ctx context.Context) error {
			calls.Add(1)
			if hangs.Load() {
				time.Sleep(time.Hour)
			}
			return ctx.Err()
		}}}}}
		ask := func() int {
			w := httptest.NewRecorder()
			p.healthz(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody))
			return w.Code
		}
		for range 100 {
			if code := ask(); code != http.StatusServiceUnavailable {
				t.Fatalf("it answers %d", code)
			}
			time.Sleep(5 * time.Second)
		}
		if n := calls.Load(); n != 1 {
			t.Errorf("%d calls hang", n)
		}
		hangs.Store(false)
		time.Sleep(time.Hour)
		if code := ask(); code != http.StatusOK || calls.Load() != 2 {
			t.Errorf("it answers %d, after %d calls", code, calls.Load())
		}
	})
}

// With Authorize, only the log has the reason of a failure: the reason may have the text
// of a server in it, and everybody who reaches the port can ask.
func TestReasonsAreWithheld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(logs)
		fail := func(context.Context) error { return errors.New("password=hunter2") }
		p := &program{Options: Options{
			Authorize: true, Logger: slog.New(log), Checks: []Check{{Name: "database", Healthy: fail, Ready: fail}},
		}}
		p.opened.Store(true)
		for range 20 {
			for path, answers := range map[string]http.HandlerFunc{
				"/healthz": p.healthz,
				"/readyz":  func(w http.ResponseWriter, r *http.Request) { p.readyz(t.Context(), w, r) },
			} {
				w := httptest.NewRecorder()
				answers(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
				if body := w.Body.String(); w.Code != http.StatusServiceUnavailable ||
					!strings.Contains(body, "database: failed") || strings.Contains(body, "hunter2") {
					t.Errorf("%s: %d %s", path, w.Code, body)
				}
			}
			time.Sleep(10 * time.Second)
		}
		if n := log.count("hunter2"); n != 1 {
			t.Errorf("the log has the reason %d times, want once in 200 s", n)
		}
	})
}
