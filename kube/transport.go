package kube

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
)

// connections holds the open connections of a client. A transport closes only connections
// that no request uses. A connection may belong to a request that was just given up, or
// may still be in the making for such a request. Without connections, it would stay open
// for as long as idle connections do.
type connections struct {
	dialer *connrotation.Dialer // keeps track of the connections
	// end closes ended, after which no connection is made.
	end   func()
	ended <-chan struct{}
}

// connectionsOf makes cfg dial through the connections that it returns.
func connectionsOf(cfg *rest.Config) *connections {
	dial := cfg.Dial
	if dial == nil {
		// This is a third of client-go's time: packets that are dropped during an outage
		// are sent again less and less often.
		dial = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	ended := make(chan struct{})
	c := &connections{connrotation.NewDialer(dial), sync.OnceFunc(func() { close(ended) }), ended}
	cfg.Dial = c.connect
	return c
}

func (c *connections) connect(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-c.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	conn, err := c.dialer.DialContext(ctx, network, address)
	select {
	case <-c.ended: // close may have been too early for this connection
		if err == nil {
			conn.Close()
		}
		return nil, errClosed
	default:
		return conn, err
	}
}

func (c *connections) close() {
	c.end()
	c.dialer.CloseAll()
}

var errClosed = fmt.Errorf("the client is closed: %w", net.ErrClosed)

var errRedirect = errors.New("the server redirects")

// checkRedirect keeps requests at the server that they were meant for. The client sends
// credentials with each of them. A write that a redirect turns into a read is no write.
func checkRedirect(req *http.Request, via []*http.Request) error {
	first := via[0]
	switch {
	case req.URL.Scheme != first.URL.Scheme || req.URL.Host != first.URL.Host:
		return fmt.Errorf("%w to %s://%s, and the credentials are for another server (see server in the kubeconfig)",
			errRedirect, req.URL.Scheme, req.URL.Host)
	case req.Method != first.Method:
		return fmt.Errorf("%w a %s to a %s", errRedirect, first.Method, req.Method)
	case len(via) >= 10:
		return fmt.Errorf("%w repeatedly, to %s", errRedirect, req.URL.Path)
	}
	return nil
}

// renew reports whether a request that was answered 401 may succeed if it is repeated.
// client-go has run the exec plugin again by then. But client-go reads a token's file only
// every minute, and not because of a 401. So renew reads that file.
func (c *Client) renew(r *request) bool {
	if file := c.config.BearerTokenFile; file != "" {
		token, err := os.ReadFile(file)
		r.authorization = "Bearer " + strings.TrimSpace(string(token))
		return err == nil
	}
	return c.config.ExecProvider != nil || c.config.AuthProvider != nil
}

// impatient gives up a request if its context ends while an exec plugin still runs.
// client-go would wait for the plugin. The plugin goes on, for the next request.
type impatient struct{ next http.RoundTripper }

func (i impatient) RoundTrip(req *http.Request) (*http.Response, error) {
	type answer struct {
		resp *http.Response
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		resp, err := i.next.RoundTrip(req) //nolint:bodyclose // the receiver of the answer closes it
		answers <- answer{resp, err}
	}()
	select {
	case a := <-answers:
		return a.resp, a.err
	case <-req.Context().Done():
		go func() {
			if a := <-answers; a.err == nil {
				a.resp.Body.Close()
			}
		}()
		return nil, req.Context().Err()
	}
}

// WrappedRoundTripper makes it possible to close idle connections.
func (i impatient) WrappedRoundTripper() http.RoundTripper { return i.next }
