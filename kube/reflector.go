package kube

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A reflector mirrors the objects of a kind into a sink: it lists them, watches
// from the list's resource version, resumes where a watch ended, and lists again
// when the server no longer has the history in between.
//
// Its states are two: without a resource version it lists, with one it watches.
// Every end of either comes back to run, which decides what is next.
type reflector struct {
	client    *Client
	kind      Kind
	codec     *codec
	namespace string // "" for all
	selector  selector
	sink      sink
	recorder  recorder

	how      listing
	troubles troubles
}

// A sink takes what a reflector mirrors. Records are valid during the call. An
// error from any method ends the reflector, which returns it.
type sink interface {
	// begin: a listing starts. It may be cut short and begin again.
	begin()
	// item is an object of the listing.
	item(record) error
	// synced: the listing is complete as of a resource version. What was there
	// before and was not listed is gone.
	synced(rv string) error
	// event is a change after the listing.
	event(kind string, rec record) error
	// progress: everything up to a resource version has been seen.
	progress(rv string)
	// trouble reports an error that does not end the reflector.
	trouble(error) error
}

// listing is a way to get all objects. The quickest comes first: 20,000 Pods
// take 0.8 s in one compressed list, 1.5 s in pages, 1.7 s as a streaming list
// (KEP-3157), and the order is the same for JSON.
type listing int

const (
	inOneList listing = iota
	inPages           // where a single list is too large for the server or the way to it
	inStream          // where listing is not allowed: it needs no right but watch
)

const (
	pageSize = 500
	// watchTimeout is how long a watch is asked to last, plus up to a fifth,
	// so that clients spread out over replicated servers.
	watchTimeout = 5 * time.Minute
	// silence is how long a list's answer, or a watch that was seen to get
	// bookmarks (which are sent every minute), may send nothing.
	silence = 2 * time.Minute
	// initialSilence is how long a streaming list may send nothing before its
	// end: a server that ignores sendInitialEvents never marks the end.
	initialSilence = 10 * time.Second
)

var errSilent = errors.New("the connection went silent")

// run mirrors until ctx ends or the sink returns an error.
func (r *reflector) run(ctx context.Context) error {
	r.recorder.codec = r.codec
	rv := ""
	for {
		var next string
		var err error
		start := time.Now()
		if rv == "" && r.how != inStream {
			next, err = r.list(ctx)
		} else {
			next, err = r.watch(ctx, rv)
		}
		var stop *sinkError
		switch {
		case errors.As(err, &stop):
			return stop.err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			if rv != "" && time.Since(start) < time.Second {
				// A server that ends watches at once is not asked in a hot loop.
				if err := sleep(ctx, jitter(time.Second)); err != nil {
					return err
				}
			}
			rv = next
		case isExpired(err), errors.Is(err, ErrNotServed):
			// The history after next is gone, or the whole kind is.
			rv = ""
		default:
			rv = next
		}
		if err := r.pause(ctx, err); err != nil {
			return err
		}
	}
}

// pause reports an error and waits before the next try.
func (r *reflector) pause(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if report := r.troubles.failed(r.wrap(err)); report != nil {
		if err := r.sink.trouble(report); err != nil {
			return err
		}
	}
	if isExpired(err) && r.troubles.tries == 1 {
		return nil // the listing will tell
	}
	return sleep(ctx, r.troubles.delay())
}

// healthy notes that the server answers, and reports it if it had not.
func (r *reflector) healthy() error {
	if report := r.troubles.over(); report != nil {
		return asSinkError(r.sink.trouble(report))
	}
	return nil
}

func (r *reflector) wrap(err error) error {
	if e := (*Error)(nil); errors.As(err, &e) {
		return err
	}
	return &Error{Verb: "watch", Kind: r.kind.Kind, Namespace: r.namespace, Err: err}
}

// sinkError marks an error as the sink's: it ends the reflector.
type sinkError struct{ err error }

func (e *sinkError) Error() string { return e.err.Error() }

func asSinkError(err error) error {
	if err == nil {
		return nil
	}
	return &sinkError{err}
}

func (r *reflector) request(ctx context.Context, verb string) (*request, error) {
	kind, err := r.client.discovery.resolve(ctx, r.kind)
	if err != nil {
		return nil, err
	}
	if err := inScope(kind, r.namespace); err != nil {
		return nil, err
	}
	q := make(url.Values)
	r.selector.set(q)
	return &request{verb: verb, method: http.MethodGet, resource: kind, namespace: r.namespace, query: q, once: true}, nil
}

// list gets all objects, in one list or in pages, and returns the resource
// version that they are of.
func (r *reflector) list(ctx context.Context) (rv string, err error) {
	defer func() { r.chooseListing(err) }()
	req, err := r.request(ctx, "list")
	if err != nil {
		return "", err
	}
	req.accept = r.codec.accept(acceptList)
	r.sink.begin()
	for {
		if r.how == inPages {
			req.query.Set("limit", strconv.Itoa(pageSize))
		}
		meta, err := r.page(ctx, req)
		if err != nil {
			return "", err
		}
		if meta.Continue == "" {
			rv = meta.ResourceVersion
			break
		}
		req.query.Set("continue", meta.Continue)
	}
	if err := r.healthy(); err != nil {
		return "", err
	}
	r.how = inOneList
	return rv, asSinkError(r.sink.synced(rv))
}

// page reads one answer to a list request.
func (r *reflector) page(ctx context.Context, req *request) (metav1.ListMeta, error) {
	ctx, guard := newGuard(ctx, silence)
	defer guard.stop()
	resp, err := r.client.do(ctx, req)
	if err != nil {
		return metav1.ListMeta{}, err
	}
	defer resp.Body.Close()
	read, proto := readListJSON, isProtobuf(resp.Header.Get("Content-Type"))
	if proto {
		read = readListProtobuf
	}
	meta, err := read(guard.reader(resp.Body), func(item []byte) error {
		rec, err := r.recorder.record(proto, item)
		if err == nil && rec.key.Name == "" {
			err = fmt.Errorf("read %s: it has no name", r.kind.Kind)
		}
		if err != nil {
			return asSinkError(r.sink.trouble(r.wrap(err))) // costs this object, not the list
		}
		return asSinkError(r.sink.item(rec))
	})
	return meta, guard.explain(ctx, err)
}

// chooseListing decides how to list next after a listing that ended with err.
func (r *reflector) chooseListing(err error) {
	var status apierrors.APIStatus
	code := 0
	if errors.As(err, &status) {
		code = int(status.Status().Code)
	}
	switch {
	case err == nil:
	case code == http.StatusForbidden, code == http.StatusMethodNotAllowed:
		r.how = inStream
	case code == http.StatusRequestEntityTooLarge, code == http.StatusInternalServerError, code == http.StatusGatewayTimeout && !isTooLarge(err),
		errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, errSilent):
		r.how = inPages
	case isExpired(err) && r.how == inPages:
		r.how = inOneList // a continue token does not live as long as these pages took
	}
}

// watch follows changes after rv, or from the initial events on if rv is empty,
// until the watch ends. It returns the resource version to resume from.
func (r *reflector) watch(ctx context.Context, rv string) (next string, err error) {
	initial := rv == ""
	defer func() {
		if initial && next == "" && err != nil {
			r.streamFailed(err)
		}
	}()
	req, err := r.request(ctx, "watch")
	if err != nil {
		return rv, err
	}
	timeout := watchTimeout + rand.N(watchTimeout/5)
	req.accept = r.codec.accept(acceptWatch)
	req.query.Set("watch", "true")
	req.query.Set("allowWatchBookmarks", "true")
	req.query.Set("resourceVersion", rv)
	req.query.Set("timeoutSeconds", strconv.Itoa(int(timeout/time.Second)))
	quiet := timeout + 30*time.Second
	if initial {
		req.query.Set("sendInitialEvents", "true")
		req.query.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchNotOlderThan))
		quiet = initialSilence
		r.sink.begin()
	}
	ctx, guard := newGuard(ctx, silence)
	defer guard.stop()
	resp, err := r.client.do(ctx, req)
	if err != nil {
		return rv, guard.explain(ctx, err)
	}
	defer resp.Body.Close()
	if !initial {
		if err := r.healthy(); err != nil {
			return rv, err
		}
	}
	guard.after = quiet
	body := guard.reader(resp.Body)
	var events interface{ next() (wireEvent, error) }
	proto := isProtobuf(resp.Header.Get("Content-Type"))
	if proto {
		events = &protobufEvents{r: bufio.NewReaderSize(body, 16<<10)}
	} else {
		events = &jsonEvents{jsontext.NewDecoder(body, decodeOptions)}
	}
	s := stream{reflector: r, rv: rv, initial: initial, proto: proto, guard: guard, quiet: timeout + 30*time.Second}
	for {
		ev, err := events.next()
		if err == nil {
			err = s.take(ev)
		}
		switch {
		case err == nil:
		case err == io.EOF && s.initial:
			return s.rv, io.ErrUnexpectedEOF
		case err == io.EOF:
			return s.rv, nil // the server ends watches when their time is over
		default:
			return s.rv, guard.explain(ctx, err)
		}
	}
}

// streamFailed decides how to list after a streaming list that did not sync.
func (r *reflector) streamFailed(err error) {
	var status apierrors.APIStatus
	if errors.Is(err, errSilent) || errors.As(err, &status) && status.Status().Code != http.StatusTooManyRequests {
		r.how = inOneList
	}
}

// stream is the state of one watch.
type stream struct {
	*reflector
	rv        string
	initial   bool // the initial events of a streaming list have not ended
	proto     bool
	bookmarks int
	guard     *guard
	quiet     time.Duration
}

// take handles one event.
func (s *stream) take(ev wireEvent) error {
	switch ev.kind {
	case eventError:
		status, ok := decodeStatus(ev.object)
		if !ok {
			return errors.New("the watch ended with an error that is no Status")
		}
		return &apierrors.StatusError{ErrStatus: *status}
	case eventBookmark:
		return s.bookmark(ev)
	case eventAdded, eventModified, eventDeleted:
	default:
		return nil // an event type that this program is too old for
	}
	rec, err := s.recorder.record(s.proto, ev.object)
	if err == nil && rec.key.Name == "" {
		err = fmt.Errorf("read %s: it has no name", s.kind.Kind)
	}
	if err != nil {
		return asSinkError(s.sink.trouble(s.wrap(err))) // costs this object, not the watch
	}
	if s.initial {
		return asSinkError(s.sink.item(rec))
	}
	if err := s.sink.event(ev.kind, rec); err != nil {
		return asSinkError(err)
	}
	s.rv = rec.rv
	return nil
}

func (s *stream) bookmark(ev wireEvent) error {
	rv, annotations, err := s.recorder.bookmark(s.proto, ev.object)
	if err != nil || rv == "" {
		return err
	}
	if s.bookmarks++; s.bookmarks == 2 && !s.initial {
		s.guard.after = silence
	}
	if !s.initial {
		s.rv = rv
		s.sink.progress(rv)
		return nil
	}
	if annotations[metav1.InitialEventsAnnotationKey] != "true" {
		return nil // the events before the mark are in no order to resume from
	}
	s.initial, s.rv, s.guard.after = false, rv, s.quiet
	if err := s.healthy(); err != nil {
		return err
	}
	return asSinkError(s.sink.synced(rv))
}

// guard ends a request whose answer goes silent. Its clock runs only while the
// answer is waited for, not while what came is worked on.
type guard struct {
	after  time.Duration
	timer  *time.Timer
	cancel context.CancelCauseFunc
	body   io.Reader
}

// newGuard starts with the wait for the answer's headers.
func newGuard(ctx context.Context, after time.Duration) (context.Context, *guard) {
	ctx, cancel := context.WithCancelCause(ctx)
	g := &guard{after: after, cancel: cancel}
	g.timer = time.AfterFunc(after, func() { cancel(errSilent) })
	return ctx, g
}

func (g *guard) stop() {
	g.timer.Stop()
	g.cancel(nil)
}

func (g *guard) reader(body io.Reader) io.Reader {
	g.timer.Stop()
	g.body = body
	return g
}

func (g *guard) Read(p []byte) (int, error) {
	g.timer.Reset(g.after)
	defer g.timer.Stop()
	return g.body.Read(p)
}

// explain puts errSilent in place of the cancellation that it caused.
func (g *guard) explain(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errSilent) {
		return fmt.Errorf("%w for %s", errSilent, g.after)
	}
	return err
}
