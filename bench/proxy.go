package main

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// request is a request that a measured operator sent.
type request struct {
	at           time.Time // when its head had arrived
	method, path string
	watch        bool
}

// writes reports whether the request may change an object.
func (q request) writes() bool {
	return q.method != http.MethodGet && q.method != http.MethodHead && q.method != http.MethodOptions
}

// within reports whether the request is about an object in this namespace.
func (q request) within(namespace string) bool {
	return strings.Contains(q.path, "/namespaces/"+namespace+"/")
}

// names reports whether the request is about this object itself, and not about one of its
// subresources.
func (q request) names(namespace, resource, name string) bool {
	return strings.HasSuffix(q.path, "/namespaces/"+namespace+"/"+resource+"/"+name)
}

// resource returns the resource of the request: deployments, echoes/status.
func (q request) resource() string {
	parts := strings.Split(strings.Trim(q.path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	default:
		return q.path
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	if len(parts) > 2 {
		return parts[0] + "/" + strings.Join(parts[2:], "/")
	}
	return parts[0]
}

// proxy stands between a measured operator and the API server and records the requests.
// The operators of both sides use it, by TLS and HTTP/2 on both connections as without
// it. So their requests are seen from outside in one way, independent of their own
// metrics. The proxy does not change bodies.
type proxy struct {
	config *rest.Config // configuration for connecting to the proxy
	server *httptest.Server

	mu       sync.Mutex
	requests []request
	more     chan struct{} // closed and replaced when there is another request
}

// startProxy starts a proxy that connects to the server with cfg, including its
// credentials.
func startProxy(cfg *rest.Config) (*proxy, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.DisableCompression = true // the transport adds nothing: clients ask for it by themselves
	target, err := url.Parse(cfg.Host)
	if err != nil {
		return nil, fmt.Errorf("read server's address: %w", err)
	}
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	p := &proxy{more: make(chan struct{})}
	forward := &httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1, // a watch's events pass at once
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	p.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		watch := r.URL.Query().Get("watch")
		p.record(request{time.Now(), r.Method, r.URL.Path, watch == "true" || watch == "1"})
		forward.ServeHTTP(w, r)
	}))
	p.server.EnableHTTP2 = true
	p.server.StartTLS()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw})
	p.config = &rest.Config{Host: p.server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: authority}}
	return p, nil
}

func (p *proxy) close() {
	p.server.CloseClientConnections() // Close would wait for open watches
	p.server.Close()
}

func (p *proxy) record(q request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = append(p.requests, q)
	close(p.more)
	p.more = make(chan struct{})
}

// mark returns the number of requests so far. since returns the later ones.
func (p *proxy) mark() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.requests)
}

// since returns the requests after a mark, and a channel that is closed when there are
// more.
func (p *proxy) since(mark int) ([]request, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests[mark:len(p.requests):len(p.requests)], p.more
}

// await waits for the first request after a mark for which wanted returns true.
func (p *proxy) await(ctx context.Context, mark int, wanted func(request) bool) (request, error) {
	for {
		requests, more := p.since(mark)
		for _, q := range requests {
			if wanted(q) {
				return q, nil
			}
		}
		mark += len(requests)
		select {
		case <-more:
		case <-ctx.Done():
			return request{}, fmt.Errorf("wait for a request: %w", ctx.Err())
		}
	}
}

// counted returns the number of requests, without watches.
func counted(requests []request) int {
	n := 0
	for _, q := range requests {
		if !q.watch {
			n++
		}
	}
	return n
}

// leases returns the number of requests that are about leases.
func leases(requests []request) int {
	n := 0
	for _, q := range requests {
		if !q.watch && q.resource() == "leases" {
			n++
		}
	}
	return n
}
