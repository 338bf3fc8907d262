package controller

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// These bound what clients can cost the program, whatever they do: a Deployment
// that package manifest makes has 128 MiB of memory.
const (
	// headerTime, readTime and writeTime are how long a client may take to send
	// the header of a request, to send all of it, and to take the answer.
	headerTime = 5 * time.Second
	readTime   = 30 * time.Second
	writeTime  = 30 * time.Second
	// scrapeTime is the same as writeTime for metrics, whose text is held
	// meanwhile. It is Prometheus' own default.
	scrapeTime = 10 * time.Second
	idleTime   = time.Minute
	headerSize = 16 << 10
	// defaultMaxBody is the size of the body of a request.
	defaultMaxBody = 1 << 20
	// maxScrapes, maxProfiles and maxHooks are how many requests are answered at
	// the same time, maxConnections is how many connections are open.
	maxScrapes     = 4
	maxProfiles    = 4
	maxHooks       = 32
	maxConnections = 512
)

// atMost returns a handler that answers n requests at the same time, and refuses
// others at once with status 503.
func atMost(n int, h http.Handler) http.Handler {
	slots := make(chan struct{}, n)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
		default:
			later(w, "too many such requests are being answered", http.StatusServiceUnavailable)
			return
		}
		defer func() { <-slots }()
		h.ServeHTTP(w, r)
	})
}

// takenWithin returns a handler whose client must take the answer within a time that is
// shorter than that of other answers.
func takenWithin(d time.Duration, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A writer without deadlines belongs to a test.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d))
		h.ServeHTTP(w, r)
	})
}

// later refuses a request that may be made again.
func later(w http.ResponseWriter, why string, code int) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, why, code)
}

// limitedListener accepts as many connections as it has slots. Others wait in the
// kernel until one is closed.
type limitedListener struct {
	net.Listener
	slots  chan struct{}
	closed chan struct{}
	once   sync.Once
}

func limitConnections(l net.Listener, n int) net.Listener {
	return &limitedListener{Listener: l, slots: make(chan struct{}, n), closed: make(chan struct{})}
}

func (l *limitedListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &limitedConn{Conn: c, release: sync.OnceFunc(func() { <-l.slots })}, nil
}

func (l *limitedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type limitedConn struct {
	net.Conn
	release func()
}

func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
