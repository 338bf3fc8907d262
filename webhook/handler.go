package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/metrics"
)

// Options say how hooks are served. The zero value works. Its counterpart is webhook.Options of
// controller-runtime.
type Options struct {
	Logger  *slog.Logger     // slog.Default by default
	Metrics *metrics.Metrics // none by default

	// MaxBytes bounds the bodies that are in memory at a time. By default it is 32 MiB. Above it a
	// request is answered with 429, and the API server sends it again.
	MaxBytes int64

	// Ignore: the configurations have the failure policy Ignore for every hook, as those of a program
	// that is being developed.
	Ignore bool

	// Settling is how long after its start a handler lets the API server ask again for a hook or kind
	// that it does not know: during a rollout another replica may know it. By default it is 30 seconds.
	Settling time.Duration

	// Draining reports whether the program stops. Connections are closed then, and unknown hooks are
	// asked for again. By default it never does.
	Draining func() bool

	// Now is time.Now by default.
	Now func() time.Time
}

const (
	maxBody         = 8 << 20 // two objects of 3 MiB, which is the API server's limit
	defaultMaxBytes = 32 << 20
	defaultSettling = 30 * time.Second
	// margin is how long before its time a call is answered.
	margin = 500 * time.Millisecond
)

// Handler answers the requests of the API server for hooks, on their paths. The API server asks by HTTPS.
// Its counterpart is webhook.Server of controller-runtime.
//
// If a function refuses, panics or does not return in time, the answer is a review that says so. A
// failure of the hook itself is logged, and has the status 500 or 504 if the hook's failure policy is
// Ignore: the API server takes that for a failed call. A request that is no review gets a text with a
// status of 400 and above. Answers with Retry-After make the API server ask again within its time.
//
// A function that does not return when its context ends keeps its goroutine, and the bytes of its
// request count until it does.
func Handler(o Options, hooks ...Hook) (http.Handler, error) {
	if err := Check(hooks...); err != nil {
		return nil, err
	}
	if len(hooks) == 0 {
		return nil, errors.New("serve webhooks: there are none")
	}
	return hooks[0].handler(o, hooks)
}

func (h *hook) handler(o Options, hooks []Hook) (http.Handler, error) {
	s, err := newServer(o)
	if err != nil {
		return nil, err
	}
	if definitions := ofDefinitions(hooks); len(definitions) > 0 {
		if s.conversions, err = newConversions(s, definitions); err != nil {
			return nil, err
		}
	}
	for _, each := range hooks {
		s.hooks[each.Path()] = each.base()
		s.counts.show(each.Path())
	}
	return s, nil
}

// newServer returns a server without hooks.
func newServer(o Options) (*server, error) {
	s := &server{
		Options: o, hooks: make(map[string]*hook), counts: newCounts(o.Metrics),
		free: cmp.Or(o.MaxBytes, defaultMaxBytes),
	}
	if o.MaxBytes < 0 || o.Settling < 0 {
		return nil, fmt.Errorf("serve webhooks: MaxBytes %d or Settling %v is negative", o.MaxBytes, o.Settling)
	}
	if s.Logger == nil {
		s.Logger = slog.Default()
	}
	if s.Now == nil {
		s.Now = time.Now
	}
	if s.Draining == nil {
		s.Draining = func() bool { return false }
	}
	s.settled = s.Now().Add(cmp.Or(o.Settling, defaultSettling))
	return s, nil
}

// server is the handler of hooks.
type server struct {
	Options
	hooks map[string]*hook // by path
	// conversions answers for the hooks that convert.
	conversions *conversions
	counts      *counts
	settled     time.Time

	mu   sync.Mutex
	free int64 // bytes that may still be taken
}

// ServeHTTP implements [http.Handler].
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	h := s.hooks[path]
	if h == nil {
		path = "unknown" // others choose the path, and each value of a label stays
	}
	began := s.Now()
	s.counts.begin(path)
	if s.Draining() {
		w.Header().Set("Connection", "close")
	}
	var code int
	if h != nil && h.verb == converts {
		to := &noted{ResponseWriter: w}
		s.conversions.ServeHTTP(to, r)
		code = cmp.Or(to.code, http.StatusOK)
	} else {
		code = s.serve(w, r, h)
	}
	s.counts.end(path, code, s.Now().Sub(began))
}

// serve answers a request and returns the status of HTTP.
func (s *server) serve(w http.ResponseWriter, r *http.Request, h *hook) int {
	contentType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case h == nil:
		return s.unknown(w, r, &failed{http.StatusNotFound, metav1.StatusReasonNotFound, errors.New("there is no such webhook")})
	case r.Method != http.MethodPost:
		return s.text(w, r, http.StatusMethodNotAllowed, "a webhook answers POST")
	case err != nil || contentType != "application/json":
		return s.text(w, r, http.StatusUnsupportedMediaType,
			fmt.Sprintf("the content type is %q, and a webhook reads application/json", r.Header.Get("Content-Type")))
	}
	wait := h.timeIn(r)
	end := time.Now().Add(wait - min(margin, wait/2))
	// A body that does not come must not keep its bytes.
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(end)
	in := &inflight{server: s}
	body, problem := in.read(r, maxBody)
	if problem != nil {
		in.release()
		if problem.code == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "1")
		}
		return s.text(w, r, problem.code, problem.Error())
	}
	_ = control.SetReadDeadline(time.Time{}) // it would end the request's context
	ctx, cancel := context.WithDeadlineCause(r.Context(), end, h.outlived())
	defer cancel()
	return s.review(ctx, w, r, in, h, body)
}

// timeIn returns the time that the API server waits for the answer. It says so in the URL.
func (h *hook) timeIn(r *http.Request) time.Duration {
	wait, err := time.ParseDuration(r.URL.Query().Get("timeout"))
	if err != nil || wait <= 0 {
		return h.timeout()
	}
	return min(wait, maxTimeout)
}

// review answers a body.
func (s *server) review(
	ctx context.Context, w http.ResponseWriter, r *http.Request, in *inflight, h *hook, body []byte,
) int {
	asked, problem := readReview(body)
	switch {
	case problem != nil && (asked.Request == nil || asked.Request.UID == ""):
		in.release()
		return s.text(w, r, problem.code, problem.Error())
	case problem == nil:
		if problem = h.isFor(asked.Request); problem != nil && s.unsettled() {
			in.release()
			return s.unknown(w, r, problem)
		}
	}
	answer := response{UID: asked.Request.UID}
	if problem != nil {
		in.release()
		return s.fail(w, r, h, answer, problem)
	}
	answer, err := s.decide(ctx, in, h, asked.Request)
	if err != nil && !errors.As(err, &problem) {
		problem = broken("the request ended: %w", err) // its client has gone
	}
	if problem != nil {
		return s.fail(w, r, h, answer, problem)
	}
	return s.send(w, r, http.StatusOK, answer)
}

// decide runs the function, and waits for it until the context ends.
func (s *server) decide(ctx context.Context, in *inflight, h *hook, q *request) (response, error) {
	type outcome struct {
		response
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		o := outcome{response{UID: q.UID}, broken("the function to %s %s ended its goroutine", h.verb, h.object())}
		defer func() {
			if v := recover(); v != nil {
				s.counts.panicked()
				s.Logger.Error("a webhook panicked", "webhook", h.Path(), "uid", string(q.UID), "panic", v,
					"stack", string(debug.Stack()))
				o.err = broken("the function to %s %s panicked: %v", h.verb, h.object(), v)
			}
			in.release()
			done <- o
		}()
		r, err := h.admit(ctx, q)
		o = outcome{r, err}
	}()
	select {
	case o := <-done:
		return o.response, o.err
	case <-ctx.Done():
		in.outlive(h.Path())
		return response{UID: q.UID}, context.Cause(ctx)
	}
}

// unsettled reports whether another replica may know more than this one.
func (s *server) unsettled() bool { return s.Draining() || s.Now().Before(s.settled) }

// unknown answers a request that another release of the program would understand.
func (s *server) unknown(w http.ResponseWriter, r *http.Request, problem *failed) int {
	if !s.unsettled() {
		return s.text(w, r, problem.code, problem.Error())
	}
	// The API server asks again within its time, by another connection, which may lead elsewhere.
	w.Header().Set("Retry-After", "1")
	w.Header().Set("Connection", "close")
	return s.text(w, r, http.StatusServiceUnavailable, problem.Error())
}

// fail answers that the hook gives no decision.
func (s *server) fail(w http.ResponseWriter, r *http.Request, h *hook, answer response, problem *failed) int {
	s.log(r, problem.code, problem.Error())
	answer.Allowed, answer.Patch, answer.PatchType = false, nil, ""
	answer.Status = failure(int32(problem.code), problem.reason, problem.Error())
	code := http.StatusOK
	if s.Ignore || h.policy() == Ignore {
		code = problem.code // a review would refuse the request
	}
	return s.send(w, r, code, answer)
}

// send answers a review.
func (s *server) send(w http.ResponseWriter, r *http.Request, code int, a response) int {
	body, err := answer(a)
	if err != nil {
		return s.text(w, r, http.StatusInternalServerError, fmt.Sprintf("encode the answer: %v", err))
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	if _, err := w.Write(body); err != nil {
		s.log(r, code, fmt.Sprintf("send the answer: %v", err))
	}
	return code
}

// text answers a request that is no review.
func (s *server) text(w http.ResponseWriter, r *http.Request, code int, text string) int {
	s.log(r, code, text)
	http.Error(w, text, code)
	return code
}

func (s *server) log(r *http.Request, code int, text string) {
	s.Logger.Warn("a webhook failed", "path", r.URL.Path, "code", code, "error", text, "from", r.RemoteAddr)
}
