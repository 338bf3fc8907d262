package optest

import (
	"bytes"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/manifest"
)

// Proxy forwards a program's requests to an API server with the program's own
// credentials, and records them.
type Proxy struct {
	// Config is the configuration for the program. It has no credentials.
	Config *rest.Config
	// Namespace is the namespace whose objects a list of all namespaces returns; empty: all.
	Namespace string
	// Used has the rights that the requests needed.
	Used manifest.Audit

	server *httptest.Server

	mu     sync.Mutex
	lose   []*regexp.Regexp
	before map[*regexp.Regexp]func()
}

// StartProxy starts a proxy for a cluster. Lists and watches of all namespaces return
// only the objects of one namespace, so that several tests can run programs for all
// namespaces at the same time.
func StartProxy(t testing.TB, c *rest.Config, namespace string) *Proxy {
	t.Helper()
	target, err := url.Parse(c.Host)
	if err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(c)
	// With HTTP/2, a connection stays open if its request was given up just before the
	// connection is closed.
	config.NextProtos = []string{"http/1.1"}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Namespace: namespace}
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			if r.In.Method == http.MethodGet && everywhere.MatchString(r.In.URL.Path) {
				q := r.Out.URL.Query()
				q.Set("fieldSelector", "metadata.namespace="+namespace)
				r.Out.URL.RawQuery = q.Encode()
			}
		},
		Transport: p.Used.Wrap(transport),
		ModifyResponse: func(resp *http.Response) error {
			if p.loses(resp.Request) {
				return errLost
			}
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     log.New(io.Discard, "", 0),
	}
	p.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the program has closed the connection
		}
		p.arrives(r)
		// The recorded rights depend on the content of a request.
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		r.Body, _ = r.GetBody()
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		p.server.CloseClientConnections()
		p.server.Close()
		utilnet.CloseIdleConnectionsFor(transport)
	})
	p.Config = &rest.Config{Host: p.server.URL}
	p.Config.CAData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw})
	return p
}

var (
	// everywhere matches the path of all objects of a namespaced kind.
	everywhere = regexp.MustCompile(`^/(api|apis/[^/]+)/v1(?:alpha1)?/(echoes|deployments|services|letters|configmaps|secrets|statefulsets|jobs|shops|pods|` +
		`networkpolicies|poddisruptionbudgets|neon\w+)$`)
	errLost = errors.New("the answer is lost")
)

// Cut closes all connections.
func (p *Proxy) Cut() { p.server.CloseClientConnections() }

// Lose drops the answer to the next request whose method and path, as in "PATCH
// /api/v1/…", match a pattern.
func (p *Proxy) Lose(pattern string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose = append(p.lose, regexp.MustCompile(pattern))
}

// Before calls f before the next request is forwarded whose method and path match a
// pattern.
func (p *Proxy) Before(pattern string, f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.before == nil {
		p.before = make(map[*regexp.Regexp]func())
	}
	p.before[regexp.MustCompile(pattern)] = f
}

// Seen returns a function that reports whether a request has arrived since then whose
// method and path match a pattern.
func (p *Proxy) Seen(pattern string) func() bool {
	var seen atomic.Bool
	p.Before(pattern, func() { seen.Store(true) })
	return seen.Load
}

func (p *Proxy) arrives(r *http.Request) {
	p.mu.Lock()
	var due []func()
	for pattern, f := range p.before {
		if pattern.MatchString(r.Method + " " + r.URL.Path) {
			due = append(due, f)
			delete(p.before, pattern)
		}
	}
	p.mu.Unlock()
	for _, f := range due {
		f()
	}
}

func (p *Proxy) loses(r *http.Request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, pattern := range p.lose {
		if pattern.MatchString(r.Method + " " + r.URL.Path) {
			p.lose = append(p.lose[:i:i], p.lose[i+1:]...)
			return true
		}
	}
	return false
}
