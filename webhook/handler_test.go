package webhook

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/metrics"
)

// endless is a body without end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// These are the rows of controller-runtime's http_test.go, and more.
func TestBadRequests(t *testing.T) {
	hook := Validate(offline(t).books, Checks[book]{Create: func(context.Context, *book) error { return nil }})
	good := string(reviewOf(t, ask("CREATE", dune, "")))
	for name, test := range map[string]struct {
		change func(*http.Request)
		body   io.Reader
		code   int
		text   string
	}{
		"an empty body":        {nil, strings.NewReader(""), 400, "the body is empty"},
		"no body":              {nil, http.NoBody, 400, "the body is empty"},
		"no content type":      {func(r *http.Request) { r.Header.Del("Content-Type") }, strings.NewReader(good), 415, `the content type is ""`},
		"another content type": {func(r *http.Request) { r.Header.Set("Content-Type", "application/foo") }, strings.NewReader(good), 415, "application/foo"},
		"another method":       {func(r *http.Request) { r.Method = "GET" }, strings.NewReader(good), 405, "answers POST"},
		"no JSON":              {nil, strings.NewReader("{"), 400, "decode the review"},
		"a list":               {nil, strings.NewReader("[]"), 400, "decode the review"},
		"nothing in it":        {nil, strings.NewReader("{}"), 400, "the body is a text without a kind of no version"},
		"v1beta1": {
			nil, strings.NewReader(strings.Replace(strings.Replace(good, "k8s.io/v1", "k8s.io/v1beta1", 1), `"uid":"7"`, `"uid":""`, 1)), 400,
			"the body is a AdmissionReview of admission.k8s.io/v1beta1, and this hook answers a AdmissionReview of admission.k8s.io/v1",
		},
		"another kind": {
			nil, strings.NewReader(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview"}`), 400, "a ConversionReview",
		},
		"no request":   {nil, strings.NewReader(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`), 400, "the review has no request"},
		"no uid":       {nil, strings.NewReader(strings.Replace(good, `"uid":"7"`, `"uid":""`, 1)), 400, "the request has no uid"},
		"without end":  {nil, endless{}, 413, "the body is larger than"},
		"a large one":  {func(r *http.Request) { r.ContentLength = maxBody + 1 }, endless{}, 413, "the body is larger than"},
		"a broken one": {nil, iotest.ErrReader(errors.New("reset")), 400, "read the body: reset"},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			s := serve(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, hook)
			r := httptest.NewRequest(http.MethodPost, hook.Path()+"?timeout=5s", test.body)
			r.Header.Set("Content-Type", "application/json; charset=utf-8")
			if test.change != nil {
				test.change(r)
			}
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			if w.Code != test.code || !strings.Contains(w.Body.String(), test.text) {
				t.Errorf("got %d %q, want %d %q", w.Code, w.Body, test.code, test.text)
			}
			if strings.Count(log.String(), "\n") != 1 {
				t.Errorf("logged %q", log.String())
			}
			if s.free != defaultMaxBytes {
				t.Errorf("%d bytes are free", s.free)
			}
		})
	}
}

// A v1beta1 review with a uid gets an answer with the uid, which names the mistake.
func TestOtherVersion(t *testing.T) {
	hook := Validate(offline(t).books, Checks[book]{Create: func(context.Context, *book) error { return nil }})
	body := strings.Replace(string(reviewOf(t, ask("CREATE", dune, ""))), "k8s.io/v1", "k8s.io/v1beta1", 1)
	got := answered(t, post(t.Context(), serve(t, Options{}, hook), hook.Path(), strings.NewReader(body)))
	if got.Allowed || got.Result.Code != 400 || !strings.Contains(got.Result.Message, "v1beta1") {
		t.Errorf("got %+v", got)
	}
}

// A replica that is older than the API server's configuration lets it ask again, for a while.
func TestUnknown(t *testing.T) {
	hook := Validate(offline(t).books, Checks[book]{Create: func(context.Context, *book) error { return nil }})
	now, draining := time.Unix(0, 0), false
	m := metrics.New()
	s := serve(t, Options{Metrics: m, Now: func() time.Time { return now }, Draining: func() bool { return draining }}, hook)
	good := reviewOf(t, ask("CREATE", dune, ""))
	other := reviewOf(t, ask("CREATE", dune, ""))
	other = bytes.Replace(other, []byte(`"kind":"Book"}`), []byte(`"kind":"Author"}`), 1)
	check := func(path string, body []byte, code int, again bool) {
		t.Helper()
		w := post(t.Context(), s, path, bytes.NewReader(body))
		if w.Code != code || (w.Header().Get("Retry-After") == "1") != again || again && w.Header().Get("Connection") != "close" {
			t.Errorf("got %d %v %q", w.Code, w.Header(), w.Body)
		}
	}
	check("/webhook/none", good, 503, true)
	check(hook.Path(), other, 503, true)
	check(hook.Path(), good, 200, false)
	now = now.Add(defaultSettling)
	check("/webhook/none", good, 404, false)
	w := post(t.Context(), s, hook.Path(), bytes.NewReader(other))
	if got := answered(t, w); got.Allowed || got.Result.Code != 400 || !strings.Contains(got.Result.Message, "this hook is for Book of library.example.com/v1, and the request is for Author of") {
		t.Errorf("got %+v", got)
	}
	draining = true
	check("/webhook/none", good, 503, true)
	check(hook.Path(), other, 503, true)
	if w := post(t.Context(), s, hook.Path(), bytes.NewReader(good)); w.Code != 200 || w.Header().Get("Connection") != "close" {
		t.Errorf("got %d %v", w.Code, w.Header())
	}
	var text bytes.Buffer
	if _, err := m.WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`controller_runtime_webhook_requests_total{code="200",webhook="` + hook.Path() + `"} 3`,
		`controller_runtime_webhook_requests_total{code="404",webhook="unknown"} 1`,
		`controller_runtime_webhook_requests_in_flight{webhook="` + hook.Path() + `"} 0`,
		`controller_runtime_webhook_latency_seconds_count{webhook="` + hook.Path() + `"} 5`,
	} {
		if !strings.Contains(text.String(), want+"\n") {
			t.Errorf("%s is not in\n%s", want, text.String())
		}
	}
}

func TestPanic(t *testing.T) {
	h := offline(t)
	for name, test := range map[string]struct {
		hook Hook
		code int
	}{
		"Fail":   {Validate(h.books, Checks[book]{Create: func(context.Context, *book) error { panic("oh") }}), 200},
		"Ignore": {Validate(h.books, Checks[book]{Create: func(context.Context, *book) error { panic("oh") }}, Settings{FailurePolicy: Ignore}), 500},
		"nil":    {Default(h.books, func(_ context.Context, b *book) error { b.Labels["a"] = "b"; return nil }), 200},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			m := metrics.New()
			s := serve(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Metrics: m}, test.hook)
			w := post(t.Context(), s, test.hook.Path(), bytes.NewReader(reviewOf(t, ask("CREATE", dune, ""))))
			got := answered(t, w)
			if w.Code != test.code || got.Allowed || got.Result.Code != 500 || !strings.Contains(got.Result.Message, "Book panicked: ") {
				t.Errorf("got %d %+v", w.Code, got)
			}
			if !strings.Contains(log.String(), "handler_test.go") {
				t.Errorf("no stack in %s", log.String())
			}
			var text bytes.Buffer
			if _, err := m.WriteTo(&text); err != nil || !strings.Contains(text.String(), "controller_runtime_webhook_panics_total 1\n") {
				t.Errorf("%v %s", err, text.String())
			}
		})
	}
}

// A function that ends its goroutine, as a test does that fails, is answered too.
func TestGoexit(t *testing.T) {
	h := Validate(offline(t).books, Checks[book]{Create: func(context.Context, *book) error { runtime.Goexit(); return nil }})
	got := answered(t, post(t.Context(), serve(t, Options{}, h), h.Path(), bytes.NewReader(reviewOf(t, ask("CREATE", dune, "")))))
	if got.Allowed || got.Result.Message != "the function to validate Book ended its goroutine" {
		t.Errorf("got %+v", got)
	}
}

// A call is answered half a second before the API server gives up, whether or not the function returns.
func TestOutlives(t *testing.T) {
	for name, test := range map[string]struct {
		query string
		after time.Duration
	}{
		"the time of the URL":      {"?timeout=3s", 2500 * time.Millisecond},
		"a short time":             {"?timeout=600ms", 300 * time.Millisecond},
		"the time of the hook":     {"", 4500 * time.Millisecond},
		"a time that is no time":   {"?timeout=x", 4500 * time.Millisecond},
		"a time of another server": {"?timeout=1h", 29500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			books := offline(t).books
			synctest.Test(t, func(t *testing.T) {
				returns := make(chan struct{})
				var ended time.Duration
				began := time.Now()
				h := Validate(books, Checks[book]{Create: func(ctx context.Context, _ *book) error {
					<-ctx.Done()
					ended = time.Since(began)
					<-returns
					return nil
				}})
				s := serve(t, Options{}, h)
				w := post(t.Context(), s, h.Path()+test.query, bytes.NewReader(reviewOf(t, ask("CREATE", dune, ""))))
				synctest.Wait()
				got := answered(t, w)
				if got.Allowed || got.Result.Code != 504 || got.Result.Message != "the function to validate Book did not return in time" {
					t.Errorf("got %+v", got)
				}
				if took := time.Since(began); took != test.after || ended != test.after {
					t.Errorf("answered after %v, the context ended after %v, want %v", took, ended, test.after)
				}
				if n := s.counts.outlived.With(h.Path()).Value(); n != 1 || s.free == defaultMaxBytes {
					t.Errorf("%v functions outlived, %d bytes are free", n, s.free)
				}
				close(returns)
				synctest.Wait()
				if n := s.counts.outlived.With(h.Path()).Value(); n != 0 || s.free != defaultMaxBytes {
					t.Errorf("%v functions outlived, %d bytes are free", n, s.free)
				}
			})
		})
	}
}

// A function that stops when its context ends has decided nothing: under Ignore the request passes.
func TestStopsInTime(t *testing.T) {
	h := Validate(offline(t).books, Checks[book]{Create: func(ctx context.Context, _ *book) error {
		<-ctx.Done()
		return fmt.Errorf("ask: %w", ctx.Err())
	}}, Settings{FailurePolicy: Ignore})
	late := h.base().outlived()
	ctx, cancel := context.WithDeadlineCause(t.Context(), time.Unix(0, 0), late)
	defer cancel()
	q, problem := readReview(reviewOf(t, ask("CREATE", dune, "")))
	if problem != nil {
		t.Fatal(problem)
	}
	if _, err := h.base().admit(ctx, q.Request); !errors.Is(err, late) {
		t.Errorf("got %v", err)
	}
}

// The API server sends a request again that finds no memory.
func TestBusy(t *testing.T) {
	books := offline(t).books
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		h := Validate(books, Checks[book]{Create: func(context.Context, *book) error { <-release; return nil }})
		body := reviewOf(t, ask("CREATE", dune, ""))
		s := serve(t, Options{MaxBytes: int64(len(body)+1) * 2}, h)
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				if w := post(t.Context(), s, h.Path(), bytes.NewReader(body)); w.Code != 200 {
					t.Errorf("got %d", w.Code)
				}
			})
		}
		synctest.Wait()
		w := post(t.Context(), s, h.Path(), bytes.NewReader(body))
		if w.Code != 429 || w.Header().Get("Retry-After") != "1" {
			t.Errorf("got %d %v", w.Code, w.Header())
		}
		close(release)
		all.Wait()
		if w := post(t.Context(), s, h.Path(), bytes.NewReader(body)); w.Code != 200 {
			t.Errorf("got %d", w.Code)
		}
	})
}

// A body of several megabytes comes in pieces, and a client that announces much takes little.
func TestLargeBody(t *testing.T) {
	h := Validate(offline(t).books, Checks[book]{Create: func(context.Context, *book) error { return nil }})
	title := strings.Repeat("x", 3<<20)
	body := reviewOf(t, ask("CREATE", strings.Replace(dune, "Dune", title, 1), strings.Replace(dune, "Dune", title, 1)))
	s := serve(t, Options{}, h)
	if got := answered(t, post(t.Context(), s, h.Path(), iotest.HalfReader(bytes.NewReader(body)))); !got.Allowed {
		t.Errorf("got %+v", got)
	}
	r := httptest.NewRequest(http.MethodPost, h.Path(), iotest.TimeoutReader(iotest.OneByteReader(bytes.NewReader(body))))
	r.ContentLength = int64(len(body))
	in := &inflight{server: s}
	if _, err := in.read(r, maxBody); err == nil || in.taken > 64<<10 {
		t.Errorf("took %d bytes, %v", in.taken, err)
	}
}

// A client that announces a body and does not send it is answered when its time is over.
func TestBodyThatNeverComes(t *testing.T) {
	h := Validate(offline(t).books, Checks[book]{Create: func(context.Context, *book) error { return nil }})
	s := serve(t, Options{}, h)
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "POST %s?timeout=100ms HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 4000000\r\n\r\n{", h.Path())
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != 400 || !strings.Contains(string(text), "read the body: ") {
		t.Errorf("got %s %s", answer.Status, text)
	}
}

// deadlines keeps the times by which a body must have come.
type deadlines struct {
	*httptest.ResponseRecorder
	set []time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.set = append(d.set, t)
	return nil
}

// The time of a body ends with the body: otherwise it would end the context of the function.
func TestReadDeadline(t *testing.T) {
	books := offline(t).books
	synctest.Test(t, func(t *testing.T) {
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		end := time.Now().Add(4500 * time.Millisecond)
		h := Validate(books, Checks[book]{Create: func(ctx context.Context, _ *book) error {
			if at, ok := ctx.Deadline(); !ok || !at.Equal(end) || len(w.set) != 2 || !w.set[0].Equal(end) || !w.set[1].IsZero() {
				t.Errorf("the deadline is %v, those of the body are %v, want %v", at, w.set, end)
			}
			return nil
		}})
		r := httptest.NewRequest(http.MethodPost, h.Path(), bytes.NewReader(reviewOf(t, ask("CREATE", dune, ""))))
		r.Header.Set("Content-Type", "application/json")
		serve(t, Options{}, h).ServeHTTP(w, r)
		if got := answered(t, w.ResponseRecorder); !got.Allowed {
			t.Errorf("got %+v", got)
		}
	})
}

// A client that goes away ends the context of the function.
func TestClientGoesAway(t *testing.T) {
	books := offline(t).books
	synctest.Test(t, func(t *testing.T) {
		h := Validate(books, Checks[book]{Create: func(ctx context.Context, _ *book) error { <-ctx.Done(); return ctx.Err() }})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			post(ctx, serve(t, Options{}, h), h.Path(), bytes.NewReader(reviewOf(t, ask("CREATE", dune, ""))))
		}()
		synctest.Wait()
		cancel()
		<-done
	})
}

type deaf struct{ *httptest.ResponseRecorder }

func (deaf) Write([]byte) (int, error) { return 0, errors.New("gone") }

// A client that does not read is logged once.
func TestBrokenWriter(t *testing.T) {
	var log bytes.Buffer
	h := Validate(offline(t).books, Checks[book]{Create: func(context.Context, *book) error { return nil }})
	s := serve(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, h)
	r := httptest.NewRequest(http.MethodPost, h.Path(), bytes.NewReader(reviewOf(t, ask("CREATE", dune, ""))))
	r.Header.Set("Content-Type", "application/json")
	s.ServeHTTP(deaf{httptest.NewRecorder()}, r)
	if strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), "send the answer: gone") {
		t.Errorf("logged %q", log.String())
	}
}

func TestHandlerErrors(t *testing.T) {
	h := offline(t)
	hook := Validate(h.books, Checks[book]{Create: func(context.Context, *book) error { return nil }})
	for name, test := range map[string]struct {
		options Options
		hooks   []Hook
		want    string
	}{
		"none":     {Options{}, nil, "serve webhooks: there are none"},
		"nil":      {Options{}, []Hook{hook, nil}, "a webhook is nil"},
		"twice":    {Options{}, []Hook{hook, hook}, "two webhooks validate Book: make one function of both"},
		"negative": {Options{MaxBytes: -1}, []Hook{hook}, "serve webhooks: MaxBytes -1 or Settling 0s is negative"},
		"a mistake": {
			Options{}, []Hook{Mutate(h.pods, (func(context.Context, *corev1.Pod) error)(nil))}, "make webhook to mutate Pod: it has no function",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Handler(test.options, test.hooks...); err == nil || err.Error() != test.want {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}
