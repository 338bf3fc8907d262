package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/internal/versions"
	"github.com/pintle-go/pintle/kube/internal/wire"
)

// watch follows changes after rv until the watch ends. If rv is empty, it begins with the
// initial events.
func (r *reflector) watch(ctx context.Context, rv string) outcome {
	start := time.Now()
	s := &stream{reflector: r, rv: rv, initial: rv == "", stage: inRequest}
	if s.initial {
		s.stage = inListing
	}
	err := s.run(ctx)
	o := outcome{rv: s.rv, err: err, stage: s.stage, took: time.Since(start)}
	if s.guard != nil {
		o.open = s.guard.open()
		o.took -= o.open
	}
	o.worked = s.told || s.stage != inListing && o.open >= lastsAfter
	switch {
	case o.worked:
		o.stage = inRequest
	case err == nil:
		o.err = errNothing
	}
	if r.heard(s, o.open) {
		o.err = errMute
	}
	if rv == "" && s.rv == "" && o.err != nil {
		r.streamFailed(o.err, time.Since(start))
	}
	return o
}

// heard notes whether a watch told something. It reports that too many watches in a row
// told nothing, of which this is the last. A server that stops sending bookmarks costs
// one listing: before another such listing, the server has to send bookmarks again.
func (r *reflector) heard(s *stream, open time.Duration) (mute bool) {
	switch {
	case s.told:
		r.marked, r.mute = r.marked || s.bookmarks >= 2, 0
	case r.marked && open >= r.watchSilence():
		r.mute++
	}
	if r.mute < muteWatches {
		return false
	}
	r.marked, r.mute = false, 0
	return true
}

// watchSilence is how long a watch on a server that sends bookmarks may tell nothing: the
// time of two bookmarks.
func (r *reflector) watchSilence() time.Duration { return max(silence, 2*r.marksEvery) }

// stream is one watch.
type stream struct {
	*reflector
	rv        string // the version to resume from
	initial   bool   // the initial events of a streaming list have not ended
	stage     stage  // how far the stream came
	told      bool   // it told something after the listing
	unreadNow int    // the number of initial events that could not be read
	bookmarks int
	markedAt  time.Duration // how long the watch had waited for data when the latest bookmark came
	guard     *guard
	quiet     time.Duration // how long it may be silent after the initial events
}

// run follows the watch. It returns nil when the server ends the watch.
func (s *stream) run(ctx context.Context) error {
	req, err := s.request(ctx, "watch")
	if err != nil {
		return err
	}
	timeout := watchTimeout + rand.N(watchTimeout/5)
	s.quiet = timeout + 30*time.Second
	req.accept = s.codec.Accept(wire.AWatch)
	req.query.Set("watch", "true")
	req.query.Set("allowWatchBookmarks", "true")
	req.query.Set("resourceVersion", s.rv)
	req.query.Set("timeoutSeconds", strconv.Itoa(int(timeout/time.Second)))
	if s.initial {
		req.query.Set("sendInitialEvents", "true")
		req.query.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchNotOlderThan))
		s.sink.begin()
	}
	ctx, s.guard = newGuard(ctx, beginSilence)
	defer s.guard.stop()
	resp, err := s.client.do(ctx, req)
	if err != nil {
		return s.guard.explain(ctx, err)
	}
	defer resp.Body.Close()
	contentType := resp.Header.Get("Content-Type")
	if err := wire.CheckType(contentType); err != nil {
		return err
	}
	if err := s.begun(); err != nil {
		return err
	}
	events := wire.NewEvents(contentType, s.guard.reader(resp.Body), s.client.maxObject)
	return s.guard.explain(ctx, s.follow(events))
}

// begun notes that the server has answered the request with a watch.
func (s *stream) begun() error {
	s.guard.after = s.quiet
	if s.initial {
		s.guard.after = initialSilence
		return nil
	}
	s.stage = beforeEvent
	return s.awaitEvent()
}

// awaitEvent passes the stage of the request. If there was trouble with watches that
// began and told nothing, the trouble is over when this watch tells something or lasts.
func (s *stream) awaitEvent() error {
	if err := s.works(inRequest); err != nil {
		return err
	}
	if s.troubles.now != nil {
		s.guard.lasts = func() error { return s.works(beforeEvent) }
	}
	return nil
}

// tells notes that the watch has told something.
func (s *stream) tells() error {
	if err := s.reads(); err != nil || s.told {
		return err
	}
	s.told, s.guard.lasts = true, nil
	return s.works(beforeEvent)
}

// follow takes the events of a watch. A malformed event costs no other event.
func (s *stream) follow(events *wire.Events) error {
	for {
		ev, err := events.Next()
		switch {
		case err == nil:
			err = s.take(ev)
		case errors.Is(err, wire.ErrEvent):
			err = s.malformed(err)
		}
		switch {
		case err == nil:
		case err == io.EOF && s.initial: //nolint:errorlint // the end of the stream, not of an object inside it
			return io.ErrUnexpectedEOF
		case err == io.EOF: //nolint:errorlint // the same
			return nil // the server ends watches when their time is over
		default:
			return err
		}
	}
}

// streamFailed decides how to list after a streaming list that did not sync. If the
// server ended the stream when its time was over, the server does not support streaming
// lists.
func (r *reflector) streamFailed(err error, lasted time.Duration) {
	code := codeOf(err)
	if errors.Is(err, errSilent) || errors.Is(err, errNoStream) || errors.Is(err, wire.ErrAnswer) ||
		lasted >= watchTimeout || code != 0 && code != http.StatusTooManyRequests {
		r.how, r.expired = inOneList, false
	}
}

// malformed reports an event that cannot be read. The event may be about any object.
func (s *stream) malformed(err error) error {
	if s.initial {
		s.unreadNow++
		s.sink.keep(Key{})
	}
	return s.skips(err)
}

// take handles one event.
func (s *stream) take(ev wire.Event) error {
	switch ev.Type {
	case wire.Bookmark:
		return s.bookmark(ev.Object)
	case wire.Added, wire.Modified, wire.Deleted:
	default:
		return nil // this program is too old for the event type
	}
	rec, err := s.record(ev.Object)
	if err == nil && !s.selects(rec) {
		ev.Type = wire.Deleted // an object that has left the selection ends
	}
	switch {
	case errors.Is(err, wire.ErrAnswer):
		return fmt.Errorf("read event: %w", err)
	case err != nil:
		return s.unreadable(ev, err)
	case s.initial && ev.Type == wire.Deleted:
		return asSinkError(s.sink.drop(rec))
	case s.initial:
		return asSinkError(s.sink.item(rec))
	case versions.Older(rec.ResourceVersion, s.rv):
		return nil // the server replays old events, and the object may be gone since
	}
	return s.change(ev.Type, rec)
}

// change gives a change to the sink.
func (s *stream) change(kind string, rec wire.Record) error {
	if err := s.sink.event(kind, rec); err != nil {
		return asSinkError(err)
	}
	s.reached(rec.ResourceVersion)
	return s.tells()
}

// unreadable handles an event whose object cannot be read. For a deletion it is enough to
// know the object's key.
func (s *stream) unreadable(ev wire.Event, err error) error {
	rec, known := wire.Identify(ev.Object)
	key := Key(rec.Key)
	switch {
	case s.initial:
		s.unreadNow++
		return s.keep(ev.Object, err)
	case known && ev.Type == wire.Deleted && !versions.Older(rec.ResourceVersion, s.rv):
		if err := s.sink.event(ev.Type, rec); err != nil {
			return asSinkError(err)
		}
	case !known:
		key = Key{}
	}
	return s.skips(s.nameIn(err, key))
}

// reached moves the resume point forward, never back.
func (s *stream) reached(rv string) {
	if rv != "" && !versions.Older(rv, s.rv) {
		s.rv = rv
	}
}

// mark notes a bookmark. The time between two bookmarks tells how often the server sends
// them, and so how long the watch may be silent. Only the wait for data counts, because a
// loop over the events may be slow. A single bookmark that is late is forgotten in time.
func (s *stream) mark() {
	now := s.guard.waited
	s.bookmarks++
	if s.bookmarks >= 2 && !s.initial {
		s.marksEvery = max(now-s.markedAt, s.marksEvery-s.marksEvery/8)
		s.guard.after = min(s.quiet, s.watchSilence())
	}
	s.markedAt = now
}

func (s *stream) bookmark(object wire.Raw) error {
	rv, endsInitial, err := wire.ReadBookmark(object)
	if err != nil {
		return s.skips(err)
	}
	if rv == "" {
		return nil
	}
	s.mark()
	if !s.initial {
		if versions.Older(rv, s.rv) {
			return nil
		}
		s.reached(rv)
		s.sink.progress(rv)
		return s.tells()
	}
	if !endsInitial {
		return errNoStream // a server that supports streaming lists marks the end of the initial events first
	}
	if err := s.complete(rv); err != nil {
		return err
	}
	s.initial, s.rv, s.stage = false, rv, beforeEvent
	s.guard.after, s.guard.opened = s.quiet, time.Now()
	if s.unreadNow == 0 {
		if err := s.over(&s.unread, inListing); err != nil {
			return err
		}
	}
	return s.awaitEvent()
}
