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

// request is one that a measured operator sent.
type request struct {
	at           time.Time // when its head had arrived
	method, path string
	watch        bool
}

// writes says whether the request may change something.
func (q request) writes() bool {
	return q.method != http.MethodGet && q.method != http.MethodHead && q.method != http.MethodOptions
}

// within says whether it is about something in this namespace.
func (q request) within(namespace string) bool {
	return strings.Contains(q.path, "/namespaces/"+namespace+"/")
}

// names says whether it is about this object itself, and not one of its subresources.
func (q request) names(namespace, resource, name string) bool {
	return strings.HasSuffix(q.path, "/namespaces/"+namespace+"/"+resource+"/"+name)
}

// resource is what kind of thing it is about: deployments, echoes/status.
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

// proxy stands between a measured operator and the API server and writes down
// what passes. Both sides' operators go through it, by TLS and HTTP/2 on either
// hand as without it, so that their requests are seen from outside in one way,
// whatever their own metrics say. Bodies pass as they are.
type proxy struct {
	config *rest.Config // how to reach it
	server *httptest.Server

	mu       sync.Mutex
	requests []request
	more     chan struct{} // closed and replaced when there is another request
}

// startProxy starts one that speaks to the server as cfg says, credentials included.
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
	p.server.CloseClientConnections() // watches that are open would be waited for
	p.server.Close()
}

func (p *proxy) record(q request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = append(p.requests, q)
	close(p.more)
	p.more = make(chan struct{})
}

// mark is how many requests there were up to now; since tells of later ones.
func (p *proxy) mark() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.requests)
}

// since returns the requests after a mark, and what is closed when there are more.
func (p *proxy) since(mark int) ([]request, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests[mark:len(p.requests):len(p.requests)], p.more
}

// await waits for the first request after a mark that is as asked.
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

// counted is how many requests there are, watches aside.
func counted(requests []request) int {
	n := 0
	for _, q := range requests {
		if !q.watch {
			n++
		}
	}
	return n
}

// leases is how many of them are about leases.
func leases(requests []request) int {
	n := 0
	for _, q := range requests {
		if !q.watch && q.resource() == "leases" {
			n++
		}
	}
	return n
}
