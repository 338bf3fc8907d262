package controller

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

// limitedListener accepts only so many connections. When all are open and another one
// comes, the quietest connection is closed. The quietest is the one on which no request
// has been answered for the longest time. So clients that keep connections open without
// requests cannot keep the kubelet's probes out.
type limitedListener struct {
	net.Listener
	slots  chan struct{} // holds a token for each open connection
	closed chan struct{}
	once   sync.Once

	mu    sync.Mutex
	quiet list.List // of *limitedConn on which no request is answered, the quietest first
}

// quietTime is how long a connection must have been quiet to be closed for another
// one. It is less than a second, which is how long the kubelet waits for a probe.
const quietTime = 500 * time.Millisecond

func limitConnections(l net.Listener, n int) net.Listener {
	return &limitedListener{Listener: l, slots: make(chan struct{}, n), closed: make(chan struct{})}
}

func (l *limitedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if !l.enter() {
		_ = conn.Close() // nothing was sent on it
		return nil, net.ErrClosed
	}
	c := &limitedConn{Conn: conn, of: l}
	c.rest()
	return c, nil
}

// enter waits for room for another connection, and closes a quiet one to make room. It
// returns false if the listener is closed before.
func (l *limitedListener) enter() bool {
	select {
	case l.slots <- struct{}{}:
		return true
	default:
	}
	for {
		again := time.After(l.makeRoom(time.Now()))
		select {
		case l.slots <- struct{}{}:
			return true
		case <-l.closed:
			return false
		case <-again:
		}
	}
}

// makeRoom closes the quietest connection if it has been quiet for long enough. It
// returns how long to wait for room before the next call.
func (l *limitedListener) makeRoom(now time.Time) time.Duration {
	c, since := l.quietest()
	if c == nil {
		return quietTime
	}
	if left := quietTime - now.Sub(since); left > 0 {
		return left
	}
	_ = c.Close() // its client gets no further word
	return quietTime
}

// quietest returns the quietest connection and since when it has been quiet. It returns
// nil if a request is being answered on each connection.
func (l *limitedListener) quietest() (*limitedConn, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.quiet.Front()
	if first == nil {
		return nil, time.Time{}
	}
	c := first.Value.(*limitedConn)
	return c, c.since
}

func (l *limitedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// limitedConn is a connection that takes a slot of its listener until the connection is
// closed.
type limitedConn struct {
	net.Conn
	of *limitedListener

	// Guarded by the listener's mutex.
	place *list.Element // in quiet; nil while a request is answered
	since time.Time     // when it became quiet
	ended bool
}

// rest notes that no request is being answered on a connection.
func (c *limitedConn) rest() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if !c.ended && c.place == nil {
		c.place, c.since = c.of.quiet.PushBack(c), time.Now()
	}
}

// work notes that a request is being answered on a connection: the connection is not
// quiet.
func (c *limitedConn) work() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.leave()
}

// leave is called with the listener's mutex held.
func (c *limitedConn) leave() {
	if c.place != nil {
		c.of.quiet.Remove(c.place)
		c.place = nil
	}
}

func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if !c.ended {
		c.ended = true
		c.leave()
		<-c.of.slots
	}
	return err
}

// The functions below connect a limitedListener to an [http.Server].

type connKey struct{}

// connContext is a ConnContext of [http.Server]. It lets handlers find the connection.
func connContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, limited(c))
}

// connState is a ConnState of [http.Server]. A connection is idle when an answer has
// been sent.
func connState(c net.Conn, state http.ConnState) {
	if c := limited(c); c != nil && state == http.StateIdle {
		c.rest()
	}
}

// answering notes that a request is being answered. A request whose header is still on
// its way does not count.
func answering(r *http.Request) {
	if c, _ := r.Context().Value(connKey{}).(*limitedConn); c != nil {
		c.work()
	}
}

// limited returns the limited connection below a connection that may be encrypted, nil if
// it is not limited.
func limited(c net.Conn) *limitedConn {
	if encrypted, ok := c.(*tls.Conn); ok {
		c = encrypted.NetConn()
	}
	l, _ := c.(*limitedConn)
	return l
}
