package kube

import (
	"io"
	"net/http"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// watch serves a watch by a goroutine that ends when the answer is closed, the
// request's context ends, the watch is cut or its time is over.
func (s *apiServer) watch(r *http.Request, namespace string) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := r.URL.Query()
	w := &modelWatch{server: s, request: r, matches: matcher(r, namespace), cut: s.cut, repeats: s.repeats}
	w.pos, _ = strconv.ParseInt(q.Get("resourceVersion"), 10, 64)
	seconds, _ := strconv.Atoi(q.Get("timeoutSeconds"))
	w.timeout = time.Duration(seconds) * time.Second
	if w.pos == 0 {
		w.pos = s.rv
		for _, o := range s.objects {
			if w.matches(&o) {
				w.initial = append(w.initial, o)
			}
		}
		w.stream = q.Get("sendInitialEvents") == "true" && !s.noStream
	} else if w.pos < s.oldest {
		return status(http.StatusGone, metav1.StatusReasonExpired, "too old resource version"), nil
	}
	reader, writer := io.Pipe()
	w.out = writer
	go w.run()
	kind := s.contentType(r)
	if kind == typeProtobuf {
		kind += ";stream=watch"
	}
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {kind}}, Body: reader, Request: r}, nil
}

// modelWatch is a watch that the server serves.
type modelWatch struct {
	server  *apiServer
	request *http.Request
	matches func(*modelObject) bool
	initial []modelObject
	stream  bool
	pos     int64
	repeats int
	timeout time.Duration
	cut     chan struct{}
	out     *io.PipeWriter
}

func (w *modelWatch) run() {
	s := w.server
	for _, o := range w.initial {
		if !w.send(eventAdded, o) {
			return
		}
	}
	ended := metav1.ObjectMeta{Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}
	if w.stream && !w.send(eventBookmark, modelObject{rv: w.pos, extra: ended}) {
		return
	}
	end := time.NewTimer(w.timeout)
	defer end.Stop()
	s.mu.Lock()
	marks := time.NewTicker(s.bookmarks)
	s.mu.Unlock()
	defer marks.Stop()
	for {
		s.mu.Lock()
		changed := s.changed
		if w.repeats != s.repeats {
			w.repeats = s.repeats
			w.pos -= s.back
		}
		var due []modelChange
		for _, c := range s.history {
			if c.rv > w.pos && c.rv <= s.held {
				due = append(due, c)
			}
		}
		upTo := min(s.rv, s.held)
		s.mu.Unlock()
		for _, c := range due {
			if !w.tell(c) {
				return
			}
			w.pos = c.rv
		}
		select {
		case <-w.request.Context().Done():
			w.out.CloseWithError(w.request.Context().Err())
			return
		case <-w.cut:
			w.out.CloseWithError(io.ErrUnexpectedEOF)
			return
		case <-end.C:
			w.out.Close()
			return
		case <-marks.C:
			if w.request.URL.Query().Get("allowWatchBookmarks") != "true" || upTo < w.pos {
				continue // on a watch from its future, a server sends nothing
			}
			if !w.send(eventBookmark, modelObject{rv: upTo}) {
				return
			}
		case <-changed:
		}
	}
}

// tell sends a change as the watch's selector shows it.
func (w *modelWatch) tell(c modelChange) bool {
	was, is := c.was != nil && w.matches(c.was), c.now != nil && w.matches(c.now)
	switch {
	case was && is:
		return w.send(eventModified, *c.now)
	case is:
		return w.send(eventAdded, *c.now)
	case was:
		last := *c.was
		last.rv = c.rv
		return w.send(eventDeleted, last)
	}
	return true
}

func (w *modelWatch) send(kind string, o modelObject) bool {
	_, err := w.out.Write(w.server.encodeEvent(w.request, kind, o))
	return err == nil
}
