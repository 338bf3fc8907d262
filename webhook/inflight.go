package webhook

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// inflight is the memory of one request. Its server guards it.
type inflight struct {
	server *server
	taken  int64
	done   bool
	late   string // the hook whose function outlived its time
}

var errBusy = errors.New("too many bytes of requests are in memory")

// take takes n more bytes, if there are any.
func (s *server) take(n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > s.free {
		return false
	}
	s.free -= n
	return true
}

// read reads the body of a request. It takes memory as the body comes: a client that announces much and
// sends nothing takes little.
func (in *inflight) read(r *http.Request, limit int64) ([]byte, *failed) {
	const first = 64 << 10
	body := http.MaxBytesReader(nil, r.Body, limit)
	size := int64(first)
	if r.ContentLength >= 0 {
		size = min(size, r.ContentLength+1) // one more, to see the end
	}
	var buf []byte
	for {
		if !in.server.take(size - in.taken) {
			return nil, &failed{http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, errBusy}
		}
		in.taken = size
		buf = append(make([]byte, 0, size), buf...)
		for len(buf) < cap(buf) {
			n, err := body.Read(buf[len(buf):cap(buf)])
			buf = buf[:len(buf)+n]
			switch tooLarge := (*http.MaxBytesError)(nil); {
			case errors.Is(err, io.EOF) && len(buf) == 0:
				return nil, bad("the body is empty")
			case errors.Is(err, io.EOF):
				return buf, nil
			case errors.As(err, &tooLarge):
				return nil, &failed{
					http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge,
					fmt.Errorf("the body is larger than %d bytes", tooLarge.Limit),
				}
			case err != nil:
				return nil, bad("read the body: %w", err)
			}
		}
		size = min(2*size, limit+1)
	}
}

// release gives the memory back.
func (in *inflight) release() {
	s := in.server
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free += in.taken
	in.taken, in.done = 0, true
	if in.late != "" {
		s.counts.outlived.With(in.late).Dec()
	}
}

// outlive counts a function that is still running after its request was answered.
func (in *inflight) outlive(path string) {
	in.server.mu.Lock()
	defer in.server.mu.Unlock()
	if !in.done {
		in.late = path
		in.server.counts.outlived.With(path).Inc()
	}
}
