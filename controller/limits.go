package controller

import (
	"net/http"
	"time"
)

// These constants bound the cost that clients can cause in the program. A Deployment that
// package manifest makes has 128 MiB of memory.
const (
	// headerTime is how long a client may take to send the header of a request, readTime
	// to send all of it, and writeTime to take the answer.
	headerTime = 5 * time.Second
	readTime   = 30 * time.Second
	writeTime  = 30 * time.Second
	// idleTime is how long a connection stays open between two requests. Clients keep
	// connections for up to 90 seconds, as Go's do. A client whose server closes first
	// loses a request that it sends at that moment, and does not repeat a POST.
	idleTime   = 3 * time.Minute
	headerSize = 16 << 10
	// defaultMaxBody is the default limit of a request's body, in bytes.
	defaultMaxBody = 1 << 20
	// maxProfiles and maxHooks are how many requests are answered at the same time. The
	// handler of metrics has a limit of its own. maxConnections is how many connections
	// may be open.
	maxProfiles    = 4
	maxHooks       = 32
	maxConnections = 512
	// quietTime is how long a connection must have been quiet to be closed for another one.
	quietTime = 500 * time.Millisecond
	// maxProbes is how many connections may be open at the probes' port. Another
	// connection closes the oldest at once, so a probe fails only if as many connections
	// come while it is answered. probeTime is how long a client may take to send a
	// request, and twice as long to take the answer, for which a Check has checkTime.
	maxProbes = 256
	probeTime = 5 * time.Second
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

// later refuses a request that the client may send again.
func later(w http.ResponseWriter, why string, code int) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, why, code)
}
