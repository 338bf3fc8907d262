package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pintle-go/pintle/internal/workmetrics"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/metrics"
)

func heapSize() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// Clients that request half a megabyte of metrics and read none of it hold little memory,
// and for no longer than the time-out.
func TestClientsThatReadNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New()
		family := m.Gauge("filler", "what makes it large", "text")
		for i := range 5000 {
			family.With(fmt.Sprint(i, strings.Repeat("x", 90))).Set(1)
		}
		l := serveHere(t, &program{Options: Options{Metrics: m}})
		before := heapSize()
		for range 200 {
			conn := l.dial(t)
			if _, err := io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if held := heapSize() - before; held > 20<<20 {
			t.Errorf("200 clients hold %d MiB", held>>20)
		}
		time.Sleep(11 * time.Second) // a second longer than the clients' time
		synctest.Wait()
		if code, text := l.request(t, "GET /metrics HTTP/1.1", ""); code != http.StatusOK ||
			!strings.Contains(text, "filler") {
			t.Errorf("after the time-out: %d, %d bytes", code, len(text))
		}
	})
}

// hooked is a runner that has only hooks.
type hooked struct {
	runner
	all []hook
}

func (h hooked) hooks() []hook        { return h.all }
func (h hooked) name() string         { return "hooked" }
func (h hooked) client() *kube.Client { return nil }

// The body of a request to a hook has a limit, which can be set.
func TestHookBodies(t *testing.T) {
	e := new(engine[gizmo])
	e.counts = workmetrics.New(metrics.New()).Controller("x", 1, e.stats)
	e.current.Store(newDispatcher(1, 0, e.counts, e.depths))
	e.sources = []opened{{Source: Hook("POST /hook", func(r *http.Request) ([]kube.Key, error) {
		_, err := io.ReadAll(r.Body)
		return nil, err
	})}}
	for name, test := range map[string]struct {
		set  int64
		size int
		want int
	}{
		"by default":          {0, defaultMaxBody, http.StatusAccepted},
		"too large":           {0, defaultMaxBody + 1, http.StatusRequestEntityTooLarge},
		"as it was set":       {10, 10, http.StatusAccepted},
		"larger than was set": {10, 11, http.StatusRequestEntityTooLarge},
		"larger than default": {2 * defaultMaxBody, 2 * defaultMaxBody, http.StatusAccepted},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := serveHere(t, &program{Options: Options{MaxBody: test.set}, runners: []runner{hooked{all: e.hooks()}}})
				head := fmt.Sprintf("POST /hook HTTP/1.1\r\nContent-Length: %d", test.size)
				if code, text := l.request(t, head, strings.Repeat("x", test.size)); code != test.want {
					t.Errorf("%d %s, want %d", code, text, test.want)
				}
			})
		})
	}
}

// The end of the program ends the contexts of requests, and waits for them.
func TestCloseEndsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cause error
		p := &program{Options: Options{Logger: slog.New(slog.DiscardHandler), Metrics: metrics.New()}}
		p.runners = []runner{hooked{all: []hook{{"GET /wait", func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			time.Sleep(time.Second / 2)
			cause = context.Cause(r.Context())
		}}}}}
		s, err := p.newServer(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		l := newPipes()
		s.start(l, nil)
		if _, err := io.WriteString(l.dial(t), "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		s.close()
		if !errors.Is(cause, context.Canceled) {
			t.Errorf("the request's context: %v", cause)
		}
	})
}

// The program's own routes are served, behind Authorize if that is set. A route whose
// pattern is invalid or taken is refused.
func TestRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		says := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.PathValue("name")) })
		l := serveHere(t, &program{Options: Options{Routes: []Route{
			{Pattern: "GET /queue/{name}", Handler: says},
			{Pattern: "GET /secret/{name}", Handler: says, Authorize: true},
		}}})
		if code, text := l.request(t, "GET /queue/mine HTTP/1.1", ""); code != http.StatusOK || text != "mine" {
			t.Errorf("a route: %d %q", code, text)
		}
		if code, _ := l.request(t, "GET /secret/mine HTTP/1.1", ""); code != http.StatusUnauthorized {
			t.Errorf("a route behind Authorize, without a token: %d", code)
		}
	})
	for name, route := range map[string]Route{
		"taken":      {Pattern: "GET /metrics", Handler: http.NotFoundHandler()},
		"no pattern": {Pattern: "GET", Handler: http.NotFoundHandler()},
		"empty":      {Handler: http.NotFoundHandler()},
		"no handler": {Pattern: "GET /x"},
	} {
		p := &program{Options: Options{Routes: []Route{route}, Metrics: metrics.New(), Logger: slog.New(slog.DiscardHandler)}}
		if _, err := p.newServer(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "serve route") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
