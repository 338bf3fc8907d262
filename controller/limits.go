package controller

import (
	"net/http"
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
	idleTime   = time.Minute
	headerSize = 16 << 10
	// defaultMaxBody is the size of the body of a request.
	defaultMaxBody = 1 << 20
	// maxProfiles and maxHooks are how many requests are answered at the same time.
	// The handler of metrics has a limit of its own. maxConnections is how many
	// connections are open.
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

// later refuses a request that may be made again.
func later(w http.ResponseWriter, why string, code int) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, why, code)
}
