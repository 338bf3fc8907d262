package kube

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
)

// connections are what a client has open. A transport closes those alone that no
// request uses: one whose request was just given up, or that is still being made
// for it, would stay for as long as idle ones do.
type connections struct {
	dialer *connrotation.Dialer // keeps count of them
	// end closes ended, after which none is made.
	end   func()
	ended <-chan struct{}
}

// connectionsOf makes cfg dial through the connections that it returns.
func connectionsOf(cfg *rest.Config) *connections {
	dial := cfg.Dial
	if dial == nil {
		// A third of the time that client-go gives it: packets that are dropped
		// during an outage are sent again less and less often.
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
	case <-c.ended: // and close may have been too early for this one
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
