package kube

import (
	"bytes"
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/internal/fieldmanager"
	"github.com/pintle-go/pintle/kube/internal/owned"
)

// Client is a connection to a cluster. [Connect] makes it, and the handles that [For] and
// [ViewOf] make use it. It keeps connections of its own, one as a rule. It drops
// connections that stay idle. Its counterpart is kube-rs's Client.
type Client struct {
	http         *http.Client
	connections  *connections
	config       *rest.Config
	base         *url.URL
	namespace    string
	fieldManager string
	noManager    error // why fieldManager is empty
	maxObject    int64
	logger       *slog.Logger
	observe      func(RequestInfo)
	observers    observers

	discovery discovery
	stores    stores
	warnings  warnings
	encoders  sync.Map // reflect.Type → *intent.Encoder
	owned     struct {
		sync.Mutex
		sets map[string]*owned.Fields // by their encoded text
	}
}

func newClient(c Config, cfg *rest.Config, namespace string) (*Client, error) {
	cfg = rest.CopyConfig(cfg)
	// A time-out of the whole exchange would cut watches. Requests end with their
	// context.
	cfg.Timeout = 0
	cfg.UserAgent = cmp.Or(cfg.UserAgent, programName())
	tracked := rest.CopyConfig(cfg) // Client.Config gives copies of cfg away
	connections := connectionsOf(tracked)
	hc, err := rest.HTTPClientFor(tracked)
	if err != nil {
		return nil, fmt.Errorf("configure client: %w", err)
	}
	hc = &http.Client{Transport: hc.Transport, CheckRedirect: checkRedirect}
	if cfg.ExecProvider != nil {
		hc.Transport = impatient{hc.Transport}
	}
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("configure client: server URL %q: %w", cfg.Host, err)
	}
	client := &Client{
		http:         hc,
		connections:  connections,
		config:       cfg,
		base:         base,
		namespace:    namespace,
		fieldManager: c.FieldManager,
		maxObject:    defaultMaxObject,
		logger:       c.Logger,
		observe:      c.Observe,
	}
	if client.fieldManager == "" {
		client.fieldManager, client.noManager = fieldmanager.Default()
	}
	if c.MaxObjectBytes > 0 {
		client.maxObject = c.MaxObjectBytes
	}
	if client.logger == nil {
		client.logger = slog.Default()
	}
	client.discovery.client = client
	return client, nil
}

// Close closes the client's connections, also those that requests use. These requests
// fail with an error that wraps [net.ErrClosed], and so do later requests. Watches and
// stores report that error as a [Trouble]. They end with their contexts, and the contexts
// should end before Close. A program that ends need not call Close. A test that looks for
// leaked goroutines must call it.
//
// A transport that the configuration brought may have other users. Of such a transport
// Close closes the idle connections.
func (c *Client) Close() {
	c.connections.close()
	// The function of apimachinery for this purpose complains of transports that it does
	// not know.
	for rt := c.http.Transport; rt != nil; {
		if t, ok := rt.(interface{ CloseIdleConnections() }); ok {
			t.CloseIdleConnections()
			return
		}
		wrapper, ok := rt.(utilnet.RoundTripperWrapper)
		if !ok {
			return
		}
		rt = wrapper.WrappedRoundTripper()
	}
}

// Namespace returns the namespace that the kubeconfig's context names. Without one it
// returns the namespace that the pod runs in, or "default". Its counterpart is kube-rs's
// Client::default_namespace.
func (c *Client) Namespace() string { return c.namespace }

// Config returns the configuration that makes a client like c. Its Rest is a copy for
// libraries that connect by themselves. Its Observe tells the observers of c, so these
// observe the requests of both clients. Each client has stores of its own.
func (c *Client) Config() Config {
	return Config{
		Rest: rest.CopyConfig(c.config), Namespace: c.namespace, FieldManager: c.fieldManager,
		Logger: c.logger, Observe: c.observed, MaxObjectBytes: c.maxObject,
	}
}

// SameCluster reports whether two clients reach one cluster, as far as their configurations tell. They
// do if they have the same URL. They also do if they trust the same authority and their URLs have no
// path: the servers of one cluster have several addresses. It makes no request.
func (c *Client) SameCluster(other *Client) bool {
	if c == other || c.base.String() == other.base.String() {
		return true
	}
	if strings.Trim(c.base.Path, "/") != "" || strings.Trim(other.base.Path, "/") != "" {
		return false // a proxy of several clusters
	}
	authority := c.authority()
	return len(authority) > 0 && bytes.Equal(authority, other.authority())
}

// authority returns the certificates of the authority that the client trusts, or nil if it trusts
// those of the system.
func (c *Client) authority() []byte {
	config := rest.CopyConfig(c.config)
	if rest.LoadTLSFiles(config) != nil {
		return nil // such a client connects to no server
	}
	return bytes.TrimSpace(config.CAData)
}

// warnings remembers the server's warnings that were logged lately, so that a reconcile
// does not repeat one every second.
type warnings struct {
	mu   sync.Mutex
	seen map[string]time.Time
}

const (
	warnAgainAfter = 10 * time.Minute
	warningsKept   = 1000
)

// fresh reports whether text was not logged for a while.
func (w *warnings) fresh(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at, ok := w.seen[text]; ok && time.Since(at) < warnAgainAfter {
		return false
	}
	if w.seen == nil || len(w.seen) >= warningsKept {
		w.seen = make(map[string]time.Time)
	}
	w.seen[text] = time.Now()
	return true
}
