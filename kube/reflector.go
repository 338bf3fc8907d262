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
	denied   error  // why there is no right to list, where streaming is tried instead
	latest   string // the latest resource version that was seen
	stale    int    // listings in a row that were older
	troubles troubles
}

// A sink takes what a reflector mirrors. Records are valid during the call. An
// error from any method ends the reflector, which returns it.
type sink interface {
	// begin: a listing starts. It may be cut short and begin again.
	begin()
	// item is an object of the listing. It is what the server has, also where it
	// is older than what was seen before, as after a restore of its storage.
	item(record) error
	// drop: an object of the listing under way was deleted meanwhile.
	drop(record) error
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

var (
	errSilent = errors.New("the connection went silent")
	errBroken = errors.New("the connection broke")
	// errNoStream: the server takes a request for a streaming list as one for a
	// plain watch, which never marks the end of the initial events.
	errNoStream = errors.New("the server does not stream lists")
	errNoRV     = errors.New("the list has no resource version to watch from")
	errStale    = errors.New("the list is older than what was seen before")
)

// staleTries is how often a listing that is older than what was seen before is
// tried again. Then the server's history was turned back, as by a restore.
const staleTries = 5

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
		if next != "" {
			r.latest = next
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
		case rv == "" && r.how == inStream && r.denied == nil && isDenied(err):
			r.denied = err // no trouble as long as streaming works
			continue
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
	if r.denied != nil && r.how != inStream {
		err, r.denied = fmt.Errorf("%w; and streamed: %w", r.denied, err), nil
	}
	if report := r.troubles.failed(r.wrap(err)); report != nil {
		if err := r.sink.trouble(report); err != nil {
			return err
		}
	}
	if isExpired(err) && r.troubles.tries == 1 {
		return nil // the listing will tell
	}
	delay := r.troubles.delay()
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		delay = max(delay, jitter(min(time.Duration(seconds)*time.Second, maxRetryAfter)))
	}
	return sleep(ctx, delay)
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
	asking, cancel := context.WithTimeoutCause(ctx, silence, errSilent)
	defer cancel()
	kind, err := r.client.discovery.resolve(asking, r.kind)
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
	if err := r.complete(rv); err != nil {
		return "", err
	}
	return rv, nil
}

// fresh returns an error for a listing that is older than what was seen before.
// After some tries the next one is taken as it is.
func (r *reflector) fresh(rv string) error {
	if !olderThan(rv, r.latest) {
		return nil
	}
	err := fmt.Errorf("%w: resource version %s after %s", errStale, rv, r.latest)
	if r.stale++; r.stale == staleTries {
		r.latest = ""
	}
	return err
}

// complete ends a listing of a resource version.
func (r *reflector) complete(rv string) error {
	if rv == "" {
		// No list at all, perhaps: nothing may be taken for gone.
		return errNoRV
	}
	if err := r.fresh(rv); err != nil {
		return err
	}
	r.stale, r.denied = 0, nil
	if err := r.healthy(); err != nil {
		return err
	}
	return asSinkError(r.sink.synced(rv))
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
	proto := isProtobuf(resp.Header.Get("Content-Type"))
	// A stale list is refused before its objects are shown: one that was deleted
	// since would come back.
	head := func(meta metav1.ListMeta) error { return r.fresh(meta.ResourceVersion) }
	meta, err := readList(proto, guard.reader(resp.Body), head, func(item []byte) error {
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
	case err == nil: // pages that work stay: the single list was too large
	case isDenied(err):
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
	initial, start := rv == "", time.Now()
	defer func() {
		if initial && next == "" && err != nil {
			r.streamFailed(err, time.Since(start))
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
	var events interface{ next() ([]byte, error) }
	proto := isProtobuf(resp.Header.Get("Content-Type"))
	if proto {
		events = &protobufEvents{r: bufio.NewReaderSize(body, 16<<10)}
	} else {
		events = &jsonEvents{jsontext.NewDecoder(body, decodeOptions)}
	}
	s := stream{reflector: r, rv: rv, initial: initial, proto: proto, guard: guard, quiet: timeout + 30*time.Second}
	for {
		raw, err := events.next()
		if err == nil {
			err = s.take(raw)
		}
		switch {
		case err == nil:
		case err == io.EOF && s.initial: //nolint:errorlint // the stream's own end, not one inside an object
			return s.rv, io.ErrUnexpectedEOF
		case err == io.EOF: //nolint:errorlint // the same
			return s.rv, nil // the server ends watches when their time is over
		default:
			return s.rv, guard.explain(ctx, err)
		}
	}
}

// streamFailed decides how to list after a streaming list that did not sync. A
// server that ended it when its time was over did not know what was asked for.
func (r *reflector) streamFailed(err error, lasted time.Duration) {
	var status apierrors.APIStatus
	if errors.Is(err, errSilent) || errors.Is(err, errNoStream) || lasted >= watchTimeout ||
		errors.As(err, &status) && status.Status().Code != http.StatusTooManyRequests {
		r.how = inOneList
	}
}

// isDenied reports that listing is not allowed, which watching may be.
func isDenied(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err)
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

// take handles one event. One that is malformed costs no more than itself: it
// came in a frame of its own.
func (s *stream) take(raw []byte) error {
	parse := parseEventJSON
	if s.proto {
		parse = parseEventProtobuf
	}
	ev, err := parse(raw)
	if err != nil {
		return asSinkError(s.sink.trouble(s.wrap(fmt.Errorf("read event: %w", err))))
	}
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
	switch {
	case s.initial && ev.kind == eventDeleted:
		return asSinkError(s.sink.drop(rec))
	case s.initial:
		return asSinkError(s.sink.item(rec))
	}
	if olderThan(rec.rv, s.rv) {
		return nil // a server that replays what was seen: the object may be gone since
	}
	if err := s.sink.event(ev.kind, rec); err != nil {
		return asSinkError(err)
	}
	s.reached(rec.rv)
	return nil
}

// reached moves the resume point, never back.
func (s *stream) reached(rv string) {
	if rv != "" && !olderThan(rv, s.rv) {
		s.rv = rv
	}
}

func (s *stream) bookmark(ev wireEvent) error {
	rv, annotations, err := s.recorder.bookmark(s.proto, ev.object)
	if err != nil {
		return asSinkError(s.sink.trouble(s.wrap(err)))
	}
	if rv == "" {
		return nil
	}
	if s.bookmarks++; s.bookmarks >= 2 && !s.initial {
		s.guard.after = silence
	}
	if !s.initial {
		s.reached(rv)
		s.sink.progress(rv)
		return nil
	}
	if annotations[metav1.InitialEventsAnnotationKey] != "true" {
		return errNoStream // a server that knows what was asked for marks the end first
	}
	if err := s.complete(rv); err != nil {
		return err
	}
	s.initial, s.rv, s.guard.after = false, rv, s.quiet
	return nil
}
