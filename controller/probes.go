package controller

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
)

// probes returns the handlers of the probes. The program stops when ctx ends.
func (p *program) probes(ctx context.Context) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", p.healthz)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { p.readyz(ctx, w, r) })
	return mux
}

// listenForProbes starts to answer probes at ProbeAddress, if it is set.
func (p *program) listenForProbes(ctx context.Context) (*server, error) {
	if p.ProbeAddress == "" {
		return nil, nil
	}
	listener, err := p.around.listen(ctx, p.ProbeAddress)
	if err != nil {
		return nil, fmt.Errorf("open %s for probes: %w", p.ProbeAddress, err)
	}
	p.Logger.Info("answering probes", "address", listener.Addr().String())
	s := p.newProbes(ctx)
	s.start(listener, nil)
	return s, nil
}

// newProbes returns a server of probes that does not serve yet. It speaks plain HTTP,
// because a probe and its answer have no secret in them, and a handshake costs more than
// an answer.
//
// Before bytes arrive, nobody can tell a probe from other connections, and later the bytes
// may be the same. So the server serves whoever came last: it has no connection that is
// spared because a request is being answered on it. Each connection has one request.
func (p *program) newProbes(ctx context.Context) *server {
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	s := &server{log: p.Logger, failed: make(chan error, 1), end: end}
	s.limit = func(l net.Listener) net.Listener { return limitConnections(l, maxProbes, 0) }
	mux := p.probes(ctx)
	s.http = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !s.begin() {
				later(w, "the program is stopping", http.StatusServiceUnavailable)
				return
			}
			defer s.answers.Done()
			mux.ServeHTTP(w, r)
		}),
		BaseContext:    func(net.Listener) context.Context { return serving },
		ReadTimeout:    probeTime,
		WriteTimeout:   2 * probeTime,
		MaxHeaderBytes: headerSize,
		ErrorLog:       slog.NewLogLogger(p.Logger.Handler(), slog.LevelDebug), // everybody can cause errors
	}
	s.http.SetKeepAlivesEnabled(false)
	return s
}
