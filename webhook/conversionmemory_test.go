package webhook

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
)

// Conversions share the memory of admissions. The API server asks again for what has no room.
func TestConversionsInMemory(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	hook := Convert(timers(func(from *timerV1, _ *timer) error {
		switch from.Spec.Cron {
		case "wait":
			close(entered)
			<-leave
		case "end":
			runtime.Goexit()
		}
		return nil
	}))
	var log bytes.Buffer
	s := serve(t, Options{MaxBytes: 500, Logger: slog.New(slog.NewTextHandler(&log, nil))}, hook)
	send := func(spec string) *httptest.ResponseRecorder {
		return converting(s, conversionOf("example.com/v2", timerOf("a", "v1", spec)),
			func(r *http.Request) { r.URL.Path = hook.Path() })
	}
	done := make(chan *httptest.ResponseRecorder)
	go func() { done <- send(`{"cron":"wait"}`) }()
	<-entered
	if w := send(`{"cron":"*"}`); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	if !strings.Contains(log.String(), errBusy.Error()) {
		t.Errorf("logged %q", log.String())
	}
	close(leave)
	if got := convertedTo(t, <-done); got.Result.Status != "Success" {
		t.Errorf("got %+v", got.Result)
	}
	if got := convertedTo(t, send(`{"cron":"end"}`)); !strings.Contains(got.Result.Message, "ended its goroutine") {
		t.Errorf("got %+v", got.Result)
	}
	if s.free != s.MaxBytes {
		t.Errorf("%d bytes are free", s.free)
	}
}
