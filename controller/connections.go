package controller

import (
	"container/list"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// limitedListener accepts only so many connections. When all are open and another one
// comes, the quietest connection is closed. A connection is quiet while the server waits
// for its client: for a request, for the rest of a request, or for the client to take the
// answer. The quietest connection is the one that has been quiet for the longest time. So
// clients that keep connections open, and say nothing on them, keep no others out.
type limitedListener struct {
	net.Listener
	spared time.Duration // how long a quiet connection is not closed for another one
	slots  chan struct{} // holds a token for each open connection
	closed chan struct{}
	once   sync.Once

	mu    sync.Mutex
	quiet list.List // of *limitedConn, the quietest first
}

// lookAgain is how often a listener without room looks for a connection that has become
// quiet.
const lookAgain = 500 * time.Millisecond

// limitConnections returns a listener that has n connections open at most. It closes a
// connection for another one only if that connection has been quiet for the time spared.
func limitConnections(l net.Listener, n int, spared time.Duration) net.Listener {
	return &limitedListener{Listener: l, spared: spared, slots: make(chan struct{}, n), closed: make(chan struct{})}
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
		return lookAgain
	}
	if left := l.spared - now.Sub(since); left > 0 {
		return left
	}
	_ = c.Close() // its client gets no further word
	return lookAgain
}

// quietest returns the quietest connection and since when it has been quiet. It returns
// nil if no connection is quiet.
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
	place *list.Element // in quiet; nil while the connection is not quiet
	since time.Time     // when it became quiet
	ended bool
}

// rest notes that the server waits for the client of a connection. It reports whether the
// connection was not quiet before.
func (c *limitedConn) rest() (worked bool) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	worked = !c.ended && c.place == nil
	if worked {
		c.place, c.since = c.of.quiet.PushBack(c), time.Now()
	}
	return worked
}

// Write waits for the client to take what was sent before.
func (c *limitedConn) Write(p []byte) (int, error) { return c.waits(c.Conn.Write, p) }

// waits calls a function that waits for the client.
func (c *limitedConn) waits(f func([]byte) (int, error), p []byte) (int, error) {
	worked := c.rest()
	n, err := f(p)
	if worked {
		c.work()
	}
	return n, err
}

// work notes that the program works on a request of a connection: the connection is not
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

// answering calls a handler, and notes when the handler works. It does not work while it
// waits for the body. When the handler has returned, the server may wait for the rest of a
// body that the handler has not read.
func answering(h http.Handler, w http.ResponseWriter, r *http.Request) {
	c, _ := r.Context().Value(connKey{}).(*limitedConn)
	if c == nil {
		h.ServeHTTP(w, r)
		return
	}
	if r.Body != http.NoBody {
		r.Body = limitedBody{r.Body, c}
	}
	c.work()
	defer c.rest()
	h.ServeHTTP(w, r)
}

// limitedBody is the body of a request on a connection.
type limitedBody struct {
	io.ReadCloser
	from *limitedConn
}

func (b limitedBody) Read(p []byte) (int, error) { return b.from.waits(b.ReadCloser.Read, p) }

// limited returns the limited connection below a connection that may be encrypted, nil if
// it is not limited.
func limited(c net.Conn) *limitedConn {
	if encrypted, ok := c.(*tls.Conn); ok {
		c = encrypted.NetConn()
	}
	l, _ := c.(*limitedConn)
	return l
}
