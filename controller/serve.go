package controller

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/pintle-go/pintle/kube"
)

// What a program with an address answers:
//
//	GET /healthz    ok while the program runs and its Checks say it is healthy
//	GET /readyz     ok once the stores of all controllers are filled, in a standby
//	                too, and its Checks say it is ready; a kind that is not
//	                installed is not waited for
//	GET /metrics    for Prometheus
//	/debug/pprof/   if Options.Profiles answers it
//
// and what hooks ask for.

// server answers at Options.Address.
type server struct {
	http   *http.Server
	failed chan error
	log    *slog.Logger
}

// listen starts to serve, if there is an address to serve at.
func (p *program) listen(ctx context.Context) (*server, error) {
	if p.Address == "" {
		return nil, nil
	}
	mux, err := p.routes(ctx)
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", p.Address)
	if err != nil {
		return nil, fmt.Errorf("open %s for HTTP: %w", p.Address, err)
	}
	s := &server{log: p.Logger, failed: make(chan error, 1), http: &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(p.Logger.Handler(), slog.LevelWarn),
	}}
	if p.TLS != nil {
		listener = tls.NewListener(listener, p.TLS)
	}
	p.Logger.Info("serving", "address", listener.Addr().String())
	go func() { s.failed <- s.http.Serve(listener) }()
	return s, nil
}

// close ends serving. Requests under way get a moment.
func (s *server) close() {
	if s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		_ = s.http.Close() // what took too long is cut off
	}
	if err := <-s.failed; !errors.Is(err, http.ErrServerClosed) {
		s.log.Error("serve HTTP", "error", err)
	}
}

// routes returns what answers. A pattern of a hook that is no pattern, or that
// is taken, is an error.
func (p *program) routes(ctx context.Context) (mux *http.ServeMux, err error) {
	mux = http.NewServeMux()
	mux.HandleFunc("GET /healthz", p.healthz)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { p.readyz(ctx, w, r) })
	guard := func(h http.Handler) http.Handler { return h }
	if p.Authorize {
		guard = newAuthorizer(p.client()).guard
	}
	mux.Handle("GET /metrics", guard(p.Metrics.Handler()))
	if p.Profiles != nil {
		mux.Handle("GET /debug/pprof/", guard(p.Profiles))
	}
	pattern := ""
	defer func() {
		if v := recover(); v != nil { // that is how a ServeMux refuses a pattern
			mux, err = nil, fmt.Errorf("serve hook %q: %v", pattern, v)
		}
	}()
	for _, r := range p.runners {
		for _, h := range r.hooks() {
			pattern = h.pattern
			mux.HandleFunc(pattern, h.handler)
		}
	}
	return mux, nil
}

// readyz says whether all controllers can reconcile, and what the others wait
// for.
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
		lines.WriteString("waits for a first look at the lease\n")
	}
	for _, r := range runners {
		switch err := r.waitsFor(); {
		case err == nil:
			fmt.Fprintf(&lines, "%s: ok\n", r.name())
		case errors.Is(err, kube.ErrNotServed):
			fmt.Fprintf(&lines, "%s: waits: %v\n", r.name(), err)
		default:
			code = http.StatusServiceUnavailable
			fmt.Fprintf(&lines, "%s: %v\n", r.name(), err)
		}
	}
	for _, c := range p.Checks {
		if c.Ready == nil {
			continue
		}
		if err := c.ask(r.Context(), c.Ready); err != nil {
			code = http.StatusServiceUnavailable
			fmt.Fprintf(&lines, "%s: %v\n", c.Name, err)
		} else {
			fmt.Fprintf(&lines, "%s: ok\n", c.Name)
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	fmt.Fprint(w, lines.String())
}
