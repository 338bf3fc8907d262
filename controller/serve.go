package controller

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pintle-go/pintle/certificate"
	"github.com/pintle-go/pintle/kube"
)

// A program with an address answers:
//
//	GET /healthz    ok while the program runs and its Checks say that it is healthy
//	GET /readyz     ok while the program can do its work and its Checks say so
//	GET /metrics    for Prometheus
//	/debug/pprof/   if Options.Profiles answers it
//
// It also answers hooks and routes. See limits.go for the limits.
//
// A program with an address for probes answers /healthz and /readyz there too, on
// connections of their own: nobody who may use hooks, routes or metrics can keep the kubelet
// out. See probes.go. In a pod the address stays open for a moment after a stop began: see
// drain.go.
//
// A program is not ready until the stores of all controllers are filled, even as a
// standby. It is not ready while it stops. It does not wait for a kind that was never
// installed, because the other controllers run. If a kind was there and is gone, the
// program is not ready until the kind is back: its definition was removed, and with it
// all objects that the program reconciles. If one of the program's own Checks fails, the
// program is not ready either. It does not wait for the stores of kinds that it converts
// itself, because the API server fills them through it, and calls only a program that is
// ready.
//
// Nothing else makes it not ready. In an outage of the API server, for example, a store
// that was filled cannot be kept up to date. It goes on to serve its contents: to take
// the endpoints of a webhook away for that would make the outage larger. The metric
// pintle_store_last_event_age_seconds and the log show the outage.

// server answers at Options.Address.
type server struct {
	http   *http.Server
	failed chan error
	log    *slog.Logger
	end    context.CancelFunc // ends the contexts of all requests
	limit  func(net.Listener) net.Listener

	mu      sync.Mutex
	ended   bool           // no more requests are answered
	answers sync.WaitGroup // the answers under way
}

// listen starts to serve at Address, if it is set.
func (p *program) listen(ctx context.Context) (*server, error) {
	if p.Address == "" {
		return nil, nil
	}
	config, err := p.encryption()
	if err != nil {
		return nil, err
	}
	s, err := p.newServer(ctx)
	if err != nil {
		return nil, err
	}
	listener, err := p.around.listen(ctx, p.Address)
	if err != nil {
		s.end()
		return nil, fmt.Errorf("open %s for HTTP: %w", p.Address, err)
	}
	p.Logger.Info("serving", "address", listener.Addr().String())
	s.start(listener, config)
	return s, nil
}

// encryption returns the configuration of TLS, nil for plain HTTP.
func (p *program) encryption() (*tls.Config, error) {
	if p.TLS == nil && p.CertDir == "" {
		return nil, nil
	}
	config := p.TLS.Clone()
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	// HTTP/2 could have as many requests on one connection as it has streams.
	config.NextProtos = []string{"http/1.1"}
	if p.CertDir != "" {
		files := &certificate.Files{Dir: p.CertDir, Logger: p.Logger}
		if err := files.Load(); err != nil {
			return nil, err
		}
		config.GetCertificate, config.Certificates = files.GetCertificate, nil // Certificates would come first
	}
	return config, nil
}

// newServer returns a server that does not serve yet.
func (p *program) newServer(ctx context.Context) (*server, error) {
	// Requests are answered even while the last reconciles finish.
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	mux, err := p.routes(ctx, serving)
	if err != nil {
		end()
		return nil, err
	}
	s := &server{log: p.Logger, failed: make(chan error, 1), end: end}
	s.limit = func(l net.Listener) net.Listener { return limitConnections(l, maxConnections, quietTime) }
	s.http = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !s.begin() {
				later(w, "the program is stopping", http.StatusServiceUnavailable)
				return
			}
			defer s.answers.Done()
			if ctx.Err() != nil {
				w.Header().Set("Connection", "close") // the next request should find another process
			}
			answering(mux, w, r)
		}),
		BaseContext:       func(net.Listener) context.Context { return serving },
		ConnContext:       connContext,
		ConnState:         connState,
		ReadHeaderTimeout: headerTime,
		ReadTimeout:       readTime,
		WriteTimeout:      writeTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    headerSize,
		ErrorLog:          slog.NewLogLogger(p.Logger.Handler(), slog.LevelWarn),
	}
	return s, nil
}

// start serves the connections of a listener.
func (s *server) start(listener net.Listener, config *tls.Config) {
	listener = s.limit(listener)
	if config != nil {
		listener = tls.NewListener(listener, config)
	}
	go func() { s.failed <- s.http.Serve(listener) }()
}

// begin reports whether a request is still answered.
func (s *server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.answers.Add(1)
	}
	return !s.ended
}

// close ends serving. Requests under way get a moment to be answered. Then they get
// another moment to see that their contexts have ended.
func (s *server) close() {
	if s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := s.http.Shutdown(ctx)
	s.end()
	if err != nil {
		_ = s.http.Close() // requests that took too long are cut off
	}
	if err := <-s.failed; !errors.Is(err, http.ErrServerClosed) {
		s.log.Error("serve HTTP", "error", err)
	}
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	answered := make(chan struct{})
	go func() {
		s.answers.Wait()
		close(answered)
	}()
	select {
	case <-answered:
	case <-time.After(time.Second):
		s.log.Warn("an HTTP handler is still running after the end of its request's context")
	}
}

// routes returns the handlers that answer while serving lasts. The program stops when ctx
// ends. If the pattern of a hook or route is invalid or taken, routes returns an error.
func (p *program) routes(ctx, serving context.Context) (mux *http.ServeMux, err error) {
	mux = p.probes(ctx)
	a := newAuthorizer(p.client(), p.Logger)
	guard := func(asked bool, h http.Handler) http.Handler {
		if asked {
			return a.guard(serving, h)
		}
		return h
	}
	mux.Handle("GET /metrics", guard(p.Authorize, p.Metrics.Handler()))
	if p.Profiles != nil {
		mux.Handle("GET /debug/pprof/", guard(p.Authorize, atMost(maxProfiles, p.Profiles)))
	}
	maxBody := cmp.Or(p.MaxBody, defaultMaxBody)
	for _, r := range p.runners {
		for _, h := range r.hooks() {
			handler := atMost(maxHooks, http.MaxBytesHandler(h.handler, maxBody))
			if err := handle(mux, h.pattern, handler); err != nil {
				return nil, fmt.Errorf("serve hook %q: %w", h.pattern, err)
			}
		}
	}
	for _, r := range p.Routes {
		if err := r.validate(); err != nil {
			return nil, err
		}
		if err := handle(mux, r.Pattern, guard(r.Authorize, http.MaxBytesHandler(r.Handler, cmp.Or(r.MaxBody, maxBody)))); err != nil {
			return nil, fmt.Errorf("serve route %q: %w", r.Pattern, err)
		}
	}
	return mux, nil
}

// handle adds a handler. It turns the panic of a ServeMux at a bad pattern into an error.
func handle(mux *http.ServeMux, pattern string, h http.Handler) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%v", v)
		}
	}()
	mux.Handle(pattern, h)
	return nil
}

// readyz answers whether all controllers can reconcile, and names the reasons of those
// that cannot.
func (p *program) readyz(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	code := http.StatusOK
	var lines strings.Builder
	if ctx.Err() != nil {
		code = http.StatusServiceUnavailable
		lines.WriteString("stopping\n")
	}
	runners := p.runners
	if !p.opened.Load() {
		runners, code = nil, http.StatusServiceUnavailable
		lines.WriteString("waits for the first read of the lease\n")
	}
	for _, r := range runners {
		switch err := r.waitsFor(); {
		case err == nil:
			fmt.Fprintf(&lines, "%s: ok\n", r.name())
		case errors.Is(err, errOwnKind), errors.Is(err, kube.ErrNotServed) && !errors.Is(err, errGone):
			fmt.Fprintf(&lines, "%s: waits: %s\n", r.name(), p.reason(r.name(), err))
		default:
			code = http.StatusServiceUnavailable
			fmt.Fprintf(&lines, "%s: %s\n", r.name(), p.reason(r.name(), err))
		}
	}
	for _, c := range p.Checks {
		if c.Ready == nil {
			continue
		}
		if err := p.checking.ask(r.Context(), c.Name, "ready", c.Ready); err != nil {
			code = http.StatusServiceUnavailable
			fmt.Fprintf(&lines, "%s: %s\n", c.Name, p.reason(c.Name, err))
		} else {
			fmt.Fprintf(&lines, "%s: ok\n", c.Name)
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	fmt.Fprint(w, lines.String())
}

// errGone and errDenied are wrapped by the error of a filled store that can't follow its kind,
// and errOwnKind by that of a store that is not filled yet.
var (
	errGone    = errors.New("the kind is gone")
	errDenied  = errors.New("a right to list or watch is missing")
	errOwnKind = errors.New("the program converts this kind itself")
)

// lost returns an error if a filled store can't follow its kind until somebody acts. Other troubles
// end by themselves, as that of a server that is away.
func lost(f *kube.Informer) error {
	switch err := f.Trouble(); {
	case errors.Is(err, kube.ErrNotServed):
		return fmt.Errorf("%w: %w", errGone, err)
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return fmt.Errorf("%w: %w", errDenied, err)
	}
	return nil
}

// hookStatus returns the HTTP status for the error of a hook.
func hookStatus(err error) int {
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusBadRequest
}
