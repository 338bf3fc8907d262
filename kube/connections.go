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
	dial func(ctx context.Context, network, address string) (net.Conn, error)
	// ctx ends when the client is closed, and with it what is being dialled.
	ctx  context.Context
	stop context.CancelFunc

	mu   sync.Mutex
	open map[*connection]struct{}
}

// connectionsOf makes cfg dial through the connections that it returns.
func connectionsOf(cfg *rest.Config) *connections {
	c := &connections{dial: cfg.Dial, open: make(map[*connection]struct{})}
	c.ctx, c.stop = context.WithCancel(context.Background())
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
	defer context.AfterFunc(c.ctx, cancel)()
	conn, err := c.dial(ctx, network, address)
	if c.ctx.Err() != nil {
		if err == nil {
			conn.Close()
		}
		return nil, errClosed
	}
	if err != nil {
		return nil, err
	}
	tracked := &connection{Conn: conn, of: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		conn.Close()
		return nil, errClosed
	}
	c.open[tracked] = struct{}{}
	return tracked, nil
}

func (c *connections) close() {
	c.stop()
	c.mu.Lock()
	open := c.open
	c.open = nil // of which a connection may still take itself out
	c.mu.Unlock()
	for conn := range open {
		conn.Conn.Close()
	}
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
