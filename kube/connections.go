package kube

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// connections are what a client has open. A transport closes those alone that no
// request uses: one whose request was just given up, or that is still being made
// for it, would stay for as long as idle ones do.
type connections struct {
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	closed chan struct{} // closed with the client

	mu   sync.Mutex
	open map[*connection]struct{} // nil when the client is closed
}

// connectionsOf makes cfg dial through the connections that it returns.
func connectionsOf(cfg *rest.Config) *connections {
	c := &connections{dial: cfg.Dial, closed: make(chan struct{}), open: make(map[*connection]struct{})}
	if c.dial == nil {
		// As client-go does.
		c.dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	cfg.Dial = c.connect
	return c
}

func (c *connections) connect(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-c.closed:
			cancel()
		case <-ctx.Done():
		}
	}()
	conn, err := c.dial(ctx, network, address)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.open == nil:
		if err == nil {
			conn.Close()
		}
		return nil, errClosed
	case err != nil:
		return nil, err
	}
	tracked := &connection{Conn: conn, of: c}
	c.open[tracked] = struct{}{}
	return tracked, nil
}

func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		return
	}
	close(c.closed)
	for conn := range c.open {
		conn.Conn.Close()
	}
	c.open = nil
}

var errClosed = fmt.Errorf("the client is closed: %w", net.ErrClosed)

// connection leaves the set that it is of when it is closed.
type connection struct {
	net.Conn
	of *connections
}

func (c *connection) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
