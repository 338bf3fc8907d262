package metrics

import (
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// compressFrom is the size in bytes from which an answer is compressed, if the request
// accepts that. A compressor needs a megabyte of memory for a moment. For a smaller
// answer this cost is higher than the benefit for the network.
const compressFrom = 128 << 10

const (
	// maxScrapes is the number of requests that are answered at the same time.
	maxScrapes = 4
	// scrapeTime is the time in which a client must read the answer, because the text
	// stays in memory until then. It is Prometheus' own default.
	scrapeTime = 10 * time.Second
)

// Handler serves the metrics in the text format, version 0.0.4, regardless of the formats
// that the request accepts. It compresses large answers with gzip if the request accepts
// gzip. It answers GET and HEAD, at any path. The counterpart in controller-runtime is
// its metrics server.
//
// A handler answers 4 requests at a time and all others with status 503. This bounds the
// text that clients can make it hold. A client has 10 seconds to read an answer.
func (m *Metrics) Handler() http.Handler {
	slots := make(chan struct{}, maxScrapes)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many requests for metrics are being answered", http.StatusServiceUnavailable)
			return
		}
		// Only tests have a writer without deadlines.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(scrapeTime))
		m.serve(w, r)
	})
}

func (m *Metrics) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "metrics are only read: use GET", http.StatusMethodNotAllowed)
		return
	}
	text := m.text()
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Vary", "Accept-Encoding")
	compress := len(text) >= compressFrom && acceptsGzip(r.Header)
	if compress {
		w.Header().Set("Content-Encoding", "gzip")
	} else {
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	}
	switch {
	case r.Method == http.MethodHead:
	case compress:
		// The errors are those of the connection: the client may have gone.
		z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
		_, _ = z.Write(text)
		_ = z.Close()
	default:
		_, _ = w.Write(text) // the client may have gone
	}
}

// acceptsGzip reports whether a request accepts gzip.
func acceptsGzip(header http.Header) bool {
	for coding := range strings.SplitSeq(strings.Join(header.Values("Accept-Encoding"), ","), ",") {
		name, weight, _ := strings.Cut(coding, ";")
		if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
			continue
		}
		q, weighed := strings.CutPrefix(strings.TrimSpace(weight), "q=")
		if !weighed {
			return true
		}
		v, err := strconv.ParseFloat(q, 64)
		return err == nil && v > 0
	}
	return false
}
