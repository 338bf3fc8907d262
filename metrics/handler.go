package metrics

import (
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// compressFrom is the size in bytes from which an answer is compressed, if the
// request accepts that. A compressor takes a megabyte of memory for the moment,
// which is more than the network is relieved of by compressing less than this.
const compressFrom = 128 << 10

const (
	// maxScrapes is how many requests are answered at the same time.
	maxScrapes = 4
	// scrapeTime is how long a client may take to take the answer, whose text is held
	// meanwhile. It is Prometheus' own default.
	scrapeTime = 10 * time.Second
)

// Handler serves the metrics in the text format, version 0.0.4, whatever the
// request accepts; large ones compressed with gzip if it does. It answers GET and
// HEAD, at any path.
//
// A handler answers 4 requests at a time and others with status 503, so that clients
// cannot have it hold more text than that. A client has 10 seconds to take an answer.
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
		// A writer without deadlines belongs to a test.
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
		// The errors are those of the connection: whoever asked may have gone.
		z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
		_, _ = z.Write(text)
		_ = z.Close()
	default:
		_, _ = w.Write(text) // whoever asked may have gone
	}
}

// acceptsGzip says whether a request names gzip among the encodings it accepts.
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
