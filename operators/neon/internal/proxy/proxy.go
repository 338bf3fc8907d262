// Package proxy lets clients of PostgreSQL connect to computes that may be suspended. It reads
// the first message of a client, wakes the endpoint that the client means, waits until its
// compute runs, and passes the bytes of both from then on. It knows no passwords: the client
// and the compute settle that between themselves.
//
// A client names the endpoint behind the name of its user, by the host name of its TLS connection
// (SNI) or by options=endpoint=ID, as Neon's own proxy has it, or by the listener that it comes to.
package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Waker wakes endpoints.
type Waker interface {
	// Wake returns the address of an endpoint's PostgreSQL, host:port, once it is running. It
	// wakes an endpoint that is suspended. It is called for each connection, so it is quick
	// for an endpoint that runs. An error of [ErrUnknown] is an endpoint that is not there.
	Wake(ctx context.Context, endpoint string) (address string, err error)
}

// ErrUnknown is the error of an endpoint that is not there.
var ErrUnknown = errors.New("the endpoint does not exist")

// Config configures a proxy.
type Config struct {
	Waker Waker
	// TLS serves clients. With it, a client that does not ask for TLS is refused before it sends
	// anything secret. Without it, clients are told that there is none.
	TLS *tls.Config
	// WakeTimeout is the longest time for which a client waits. Default: 60 s.
	WakeTimeout time.Duration
	// StartupTimeout is the time in which a client has to say its wish. Default: 10 s.
	StartupTimeout time.Duration
	// MaxConnections are served at once, over all listeners. More are told so. Default: 10,000.
	MaxConnections int
	// MaxGreetings is the number of connections whose client has not said its wish. More are closed:
	// clients that say nothing keep no place for longer than StartupTimeout. Default: 500.
	MaxGreetings int
	// MaxWaiting is the number of connections that wait for one endpoint. More are told so. It
	// keeps clients that retry from piling up. Default: 100.
	MaxWaiting int
	// Name returns the endpoint that the host name of a client's TLS connection means. Default:
	// its first label.
	Name func(host string) string
	// SplitUser splits the name of a user who names the endpoint behind it. Default: at the last dot,
	// as in USER.ENDPOINT.
	SplitUser func(user string) (role, endpoint string)
	// Dial connects to computes. Default: the network's own names.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	Log  *slog.Logger
}

// Proxy serves clients. It is safe for concurrent use.
type Proxy struct {
	config Config

	open      atomic.Int64
	greetings atomic.Int64

	mu      sync.Mutex
	waiting map[string]int  // connections by endpoint
	cancels map[key]backend // where cancel requests go
}

// key is how PostgreSQL names a session to those who want to cancel its query.
type key struct {
	process uint32
	secret  string
}

// backend is the place of a session.
type backend struct{ address string }

// New returns a proxy.
func New(c Config) *Proxy {
	if c.WakeTimeout == 0 {
		c.WakeTimeout = time.Minute
	}
	if c.StartupTimeout == 0 {
		c.StartupTimeout = 10 * time.Second
	}
	if c.MaxConnections == 0 {
		c.MaxConnections = 10_000
	}
	if c.MaxGreetings == 0 {
		c.MaxGreetings = 500
	}
	if c.MaxWaiting == 0 {
		c.MaxWaiting = 100
	}
	if c.Name == nil {
		c.Name = firstLabel
	}
	if c.SplitUser == nil {
		c.SplitUser = lastLabel
	}
	if c.Dial == nil {
		c.Dial = new(net.Dialer).DialContext
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.TLS != nil && len(c.TLS.NextProtos) == 0 {
		c.TLS = c.TLS.Clone()
		c.TLS.NextProtos = []string{protocolName}
	}
	return &Proxy{config: c, waiting: map[string]int{}, cancels: map[key]backend{}}
}

func firstLabel(host string) string {
	label, _, _ := strings.Cut(host, ".")
	return label
}

// Connections returns the number of clients.
func (p *Proxy) Connections() int { return int(p.open.Load()) }

// Serve serves the clients of a listener until ctx ends, and returns when the last of them is
// gone: when ctx ends, their connections are closed. With an endpoint, all clients of this
// listener mean that one. Without, each names its own.
func (p *Proxy) Serve(ctx context.Context, l net.Listener, endpoint string) error {
	var clients sync.WaitGroup
	defer clients.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	for {
		conn, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				conn.Close()
			}
			return nil
		case isTemporary(err):
			p.config.Log.Warn("accept connection", "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
			continue
		case err != nil:
			return fmt.Errorf("accept connection: %w", err)
		}
		clients.Go(func() {
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			full := p.open.Add(1) > int64(p.config.MaxConnections)
			defer p.open.Add(-1)
			if err := p.serve(ctx, conn, endpoint, full); err != nil && ctx.Err() == nil {
				p.config.Log.Debug("serve client", "client", conn.RemoteAddr().String(), "error", err)
			}
		})
	}
}

// isTemporary tells an error that passes, such as too many open files.
func isTemporary(err error) bool {
	var temporary interface{ Temporary() bool }
	return errors.As(err, &temporary) && temporary.Temporary()
}

// enter counts a connection that waits for an endpoint, unless there are too many.
func (p *Proxy) enter(endpoint string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting[endpoint] >= p.config.MaxWaiting {
		return false
	}
	p.waiting[endpoint]++
	return true
}

func (p *Proxy) leave(endpoint string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting[endpoint]--; p.waiting[endpoint] == 0 {
		delete(p.waiting, endpoint)
	}
}

// longestKey is the largest secret of a session that the protocol allows.
const longestKey = 256

// remember notes where the cancel requests for a session go, unless the key is another session's.
func (p *Proxy) remember(k key, b backend) (done bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, taken := p.cancels[k]; taken || len(k.secret) > longestKey {
		return false
	}
	p.cancels[k] = b
	return true
}

func (p *Proxy) forget(k key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.cancels, k)
}

func (p *Proxy) find(k key) (backend, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, ok := p.cancels[k]
	return b, ok
}
