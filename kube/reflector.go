package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/pintle-go/pintle/kube/internal/wire"
)

// A reflector mirrors the objects of a kind into a sink: it lists them, watches from the
// list's resource version, resumes where a watch ended, and lists again when the watch
// cannot be resumed.
//
// It has two states: without a resource version it lists, with one it watches. After
// every end of a listing or a watch, run decides about the next step.
type reflector struct {
	client    *Client
	kind      Kind
	codec     *wire.Codec
	namespace string // "" for all
	selector  selector
	sink      sink
	recorder  *wire.Recorder

	how      listing
	expired  bool   // pages have expired since a list worked, so they are not tried next
	listKind string // the name of the kind's lists, if it is an unusual one
	denied   error  // the reason why listing is not allowed; streaming is tried instead
	latest   string // the latest resource version so far
	stale    int    // listings in a row that were older than latest
	backOff  backOff
	// failed counts the watches that failed since one worked. failedSince is the time of
	// the first of these failures that the server answered.
	failed      int
	failedSince time.Time
	// marked: a watch got bookmarks. mute counts the watches in a row, since then, that
	// told nothing although they were open for long enough.
	marked bool
	mute   int
	// marksEvery is the longest time between two bookmarks of a watch lately.
	marksEvery time.Duration
	troubles   troubles
	unread     troubles // of objects that could not be read
}

// listing is a way to get all objects. The quickest comes first: 20,000 Pods take 0.8 s
// in one compressed list, 1.5 s in pages, 1.7 s as a streaming list (KEP-3157), and the
// order is the same for JSON.
type listing int

const (
	inOneList listing = iota
	inPages           // if a single list is too large for the server or for the way to it
	// inStream, if listing is not allowed, or if a single list is too large and pages expire:
	// this needs no right but watch.
	inStream
)

const (
	pageSize = 500
	// watchTimeout is how long a watch is asked to last, plus up to a fifth, so that
	// clients spread out over replicated servers.
	watchTimeout = 5 * time.Minute
	// silence is how long a list's answer may send nothing. It also holds for a watch
	// that got bookmarks before, as a rule: most servers send one every minute.
	silence = 2 * time.Minute
	// beginSilence is how long a watch may take to begin.
	beginSilence = 30 * time.Second
	// initialSilence is how long a streaming list may send nothing before the end of its
	// initial events: a server that ignores sendInitialEvents never marks that end.
	initialSilence = 10 * time.Second
	// muteWatches is how many watches in a row may tell nothing, not even a bookmark, if
	// earlier watches got bookmarks.
	muteWatches = 2
	// watchTries is how many watches in a row may fail before the next listing.
	watchTries = 3
	// waitsFor is the longest time for which a server may put off the next listing.
	waitsFor = 30 * time.Second
	// pollEvery is how often a kind is listed, give or take a half, if its lists have no
	// resource version to watch from.
	pollEvery = maxDelay
)

var (
	errSilent = errors.New("no data arrived on the connection")
	errBroken = errors.New("the connection broke")
	// errNoStream: the server takes the request for a streaming list as a plain watch,
	// which never marks the end of the initial events.
	errNoStream = errors.New("the server does not stream lists")
	errStale    = errors.New("the list is older than objects that were seen before")
	errNothing  = errors.New("the watch ended at once without an event: does a proxy in front of the server not stream?")
	// errMute: a server accepts a watch from a resource version that it has not reached,
	// and sends nothing on the watch until it has reached it. A server whose storage was
	// restored does so too.
	errMute = errors.New("watches returned no events and no bookmarks: was the server's storage restored from a backup?")
)

// staleTries is how often a stale listing is tried again: one that is older than the
// state that the reflector has seen. A listing that is stale after these tries means that
// the server's history was turned back, as by a restore.
const staleTries = 5

// outcome tells how a listing or a watch ended.
type outcome struct {
	rv    string // the version to go on from; empty: list again
	err   error
	stage stage         // the stage in which err happened
	took  time.Duration // the time until the answer came, or failed to come
	open  time.Duration // how long a watch was open
	// worked: a watch told something, or was open for a while.
	worked bool
}

// run mirrors until ctx ends or the sink returns an error.
func (r *reflector) run(ctx context.Context) error {
	r.unread.unread = true
	rv := ""
	for {
		var o outcome
		listing := rv == "" && r.how != inStream
		if listing {
			o = r.list(ctx)
		} else {
			o = r.watch(ctx, rv)
		}
		if o.rv != "" {
			r.latest = o.rv
		}
		var stop *sinkError
		switch {
		case errors.As(o.err, &stop):
			return stop.err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		var wait time.Duration
		var err error
		switch {
		case !listing || o.err != nil:
			rv, wait, err = r.next(o)
		case o.rv == "":
			wait = spread(pollEvery) // there is no version to watch from
		default:
			rv = o.rv
		}
		if err == nil {
			err = sleep(ctx, wait)
		}
		if err != nil {
			return err
		}
	}
}

// next decides how to go on after a watch or a failed listing: from which version, and
// when. The error is the sink's.
func (r *reflector) next(o outcome) (rv string, wait time.Duration, err error) {
	pace := atOnce
	switch {
	case o.worked && o.open >= quickly && (o.open >= maxDelay || !isExpired(o.err)):
		r.backOff = backOff{}
		r.failed, r.failedSince = 0, time.Time{}
	case o.worked:
		r.failed, r.failedSince = 0, time.Time{}
		pace = brisk
	}
	if o.err == nil {
		return o.rv, r.backOff.delay(pace), nil
	}
	switch {
	case o.rv == "" && r.how == inStream && r.denied == nil && isDenied(o.err):
		r.denied = o.err // this is no trouble as long as streaming works
		return "", 0, nil
	case r.denied != nil && r.how != inStream:
		o.err, r.denied = fmt.Errorf("%w; the streaming list failed too: %w", r.denied, o.err), nil
	}
	if err := r.fails(o.err, o.stage); err != nil {
		return "", 0, err
	}
	rv = o.rv
	if !o.worked {
		pace = paceAfter(o.err, o.took)
	}
	switch {
	case isExpired(o.err), errors.Is(o.err, ErrNotServed), errors.Is(o.err, errMute):
		// The history after o.rv is gone, or the server has another history, or the whole
		// kind is gone.
		rv, pace = "", patient
	case rv != "" && !o.worked && r.giveUpWatch(o.err):
		rv, pace = "", patient
	}
	wait = r.backOff.delay(pace)
	if asked, ok := suggestedDelay(o.err); ok {
		wait = max(wait, jitter(asked))
	}
	if isExpired(o.err) && r.backOff.tries[patient] == 1 {
		wait = 0 // the listing will tell
	}
	return rv, wait, nil
}

// giveUpWatch notes that a watch failed. It decides whether the reflector lists instead of
// trying to watch once more. After such a listing a single failure is enough.
func (r *reflector) giveUpWatch(err error) bool {
	if errors.Is(err, ErrUnreachable) {
		return false // a listing would not reach the server either
	}
	if r.failedSince.IsZero() {
		r.failedSince = time.Now()
	}
	if asksForTime(err) {
		return time.Since(r.failedSince) >= waitsFor
	}
	r.failed++
	return r.failed >= watchTries
}

// fails reports a failure to the sink, and returns the sink's error.
func (r *reflector) fails(err error, in stage) error {
	report := r.troubles.failed(r.wrap(err), in)
	r.tell()
	if report == nil {
		return nil
	}
	return r.sink.trouble(report)
}

// works notes that a stage was passed.
func (r *reflector) works(in stage) error { return r.over(&r.troubles, in) }

// skips reports an object that cannot be read.
func (r *reflector) skips(err error) error {
	report := r.unread.failed(r.wrap(err), inListing)
	r.tell()
	if report == nil {
		return nil
	}
	return asSinkError(r.sink.trouble(report))
}

// reads notes an object that can be read.
func (r *reflector) reads() error {
	if r.unread.now == nil || time.Since(r.unread.now.latest) < unreadFor {
		return nil
	}
	return r.over(&r.unread, inListing)
}

func (r *reflector) over(t *troubles, in stage) error {
	was := t.over(in)
	r.tell()
	if was == nil {
		return nil
	}
	return asSinkError(r.sink.recovered(was))
}

// tell tells the sink about the present trouble.
func (r *reflector) tell() {
	t := r.troubles.current()
	if t == nil {
		t = r.unread.current()
	}
	r.sink.setTrouble(t)
}

// record makes a record of an object, which must have a name and be in the reflector's namespace.
func (r *reflector) record(raw wire.Raw) (wire.Record, error) {
	rec, err := r.recorder.Record(raw)
	switch is := rec.Key.Namespace; {
	case is != "" && r.namespace != "" && is != r.namespace:
		err = fmt.Errorf("%w: the object is %s", wire.ErrAnswer, rec.Key)
	case err == nil && rec.Key.Name == "":
		err = fmt.Errorf("read %s: it has no name", r.kind.Kind)
	}
	return rec, err
}

// selects reports whether the labels of an object match. A server that serves a kind without a store
// may ignore the selector.
func (r *reflector) selects(rec wire.Record) bool {
	return r.selector.labels == nil || rec.Bare || r.selector.labels.Matches(rec.Labels())
}

func (r *reflector) wrap(err error) error {
	if e := (*Error)(nil); errors.As(err, &e) {
		return err
	}
	return &Error{Verb: "watch", Kind: r.kind.Kind, Namespace: r.namespace, Err: err}
}

// sinkError marks an error of the sink, which ends the reflector.
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
	kind, err := r.client.discovery.resolveFor(asking, r.kind, func(kind Kind) error {
		return inScope(kind, r.namespace)
	})
	if err != nil {
		return nil, err
	}
	q := make(url.Values)
	r.selector.set(q)
	return &request{verb: verb, method: http.MethodGet, resource: kind, namespace: r.namespace, query: q, once: true}, nil
}
