package kube

import (
	"context"
	"errors"
	"iter"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// EventType says what happened to an object.
type EventType string

const (
	Added    EventType = "ADDED"
	Modified EventType = "MODIFIED"
	Deleted  EventType = "DELETED"
	// Synced marks that the events so far add up to what the server had at one
	// moment: after the first listing and after every later one.
	Synced EventType = "SYNCED"
)

// Event is a change of an object. Object is never nil: of an object that
// vanished while the watch was cut off it holds the metadata that is known
// (name, namespace, uid), and in a Synced event it is empty.
type Event[T any] struct {
	Type   EventType
	Object *T
}

// Watch yields the objects of the handle as Added, then Synced, then every
// change. It does not end by itself: it resumes a watch that ended or broke,
// lists again when the server no longer has the history in between, and waits
// for a kind that is not installed. It ends when ctx does or the loop is left,
// and starts no goroutine (for several namespaces: one each, which have ended
// when the loop is left).
//
// Guarantees: an object is never seen older than before, unless the server's
// storage was restored from a backup; a new object under an old name, with
// another uid, is a Deleted and an Added; objects that vanished while the watch
// was cut off are Deleted before the next Synced; events add up to one state of
// the server at every Synced. Changes may be merged: not every intermediate state
// of an object is seen.
//
// Errors: a [Trouble] reports what went wrong while it goes on by itself, with
// a zero Event; an object that does not decode is yielded with its error and
// its metadata. An error in the handle itself, such as a type that does not
// name its kind, is yielded once and ends the watch, as does the end of ctx,
// whose cause is not yielded.
//
// Caveats: the loop's body has the server waiting: a watch whose body blocks
// for long is cut off by the server and resumed, at the cost of its history.
// managedFields are dropped, see [Reader.WithManagedFields].
func (r Reader[T]) Watch(ctx context.Context) iter.Seq2[Event[T], error] {
	return func(yield func(Event[T], error) bool) {
		if r.err != nil {
			yield(Event[T]{Object: new(T)}, &Error{Verb: "watch", Kind: r.kindName(), Err: r.err})
			return
		}
		if len(r.namespaces) > 1 {
			r.watchSeveral(ctx, yield)
			return
		}
		s := &eventSink[T]{codec: r.codec, yield: yield, known: make(map[Key]seen)}
		_ = r.reflector(r.namespace(), s).run(ctx) // ends with ctx or the loop, which is no error
	}
}

// watchSeveral merges the watches of several namespaces.
func (r Reader[T]) watchSeveral(ctx context.Context, yield func(Event[T], error) bool) {
	type item struct {
		ev    Event[T]
		err   error
		first bool // the namespace's first sync mark
	}
	ctx, cancel := context.WithCancel(ctx)
	items := make(chan item)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for _, ns := range r.namespaces {
		synced := false
		s := &eventSink[T]{codec: r.codec, known: make(map[Key]seen), yield: func(ev Event[T], err error) bool {
			first := ev.Type == Synced && !synced
			synced = synced || first
			select {
			case items <- item{ev, err, first}:
				return true
			case <-ctx.Done():
				return false
			}
		}}
		running.Go(func() { _ = r.reflector(ns, s).run(ctx) })
	}
	missing := len(r.namespaces)
	for {
		select {
		case <-ctx.Done():
			return
		case it := <-items:
			// The namespaces' first marks are one mark, after the last.
			if it.first {
				missing--
			}
			if it.ev.Type == Synced && missing > 0 {
				continue
			}
			if !yield(it.ev, it.err) {
				return
			}
		}
	}
}

func (h handle) reflector(namespace string, s sink) *reflector {
	return &reflector{client: h.client, kind: h.kind, codec: h.codec, namespace: namespace, selector: h.selector, sink: s}
}

// namespace is the handle's only namespace, or "" for all.
func (h handle) namespace() string {
	if len(h.namespaces) == 1 {
		return h.namespaces[0]
	}
	return ""
}

// kindName names the kind in errors, also where it is not known.
func (h handle) kindName() string {
	switch {
	case h.kind.Kind != "":
		return h.kind.Kind
	case h.goType != nil:
		return h.goType.String()
	}
	return "objects"
}

var errLeft = errors.New("the loop was left")

// eventSink turns records into the events of a watch.
type eventSink[T any] struct {
	codec *codec
	yield func(Event[T], error) bool
	known map[Key]seen
	round uint32
}

// seen is what a watch remembers of an object that it has shown.
type seen struct {
	uid   types.UID
	rv    string
	round uint32 // the listing that it was last in
}

func (s *eventSink[T]) begin() { s.round++ }

func (s *eventSink[T]) item(rec record) error { return s.show(rec, true) }

func (s *eventSink[T]) drop(rec record) error { return s.event(eventDeleted, rec) }

func (s *eventSink[T]) synced(string) error {
	for key, was := range s.known {
		if was.round != s.round {
			if err := s.gone(key, was); err != nil {
				return err
			}
		}
	}
	return s.emit(Event[T]{Synced, new(T)}, nil)
}

func (s *eventSink[T]) event(kind string, rec record) error {
	if kind != eventDeleted {
		return s.show(rec, false)
	}
	was, ok := s.known[rec.key]
	if !ok || was.uid != rec.uid || olderThan(rec.rv, was.rv) {
		return nil // told already
	}
	delete(s.known, rec.key)
	return s.decode(Deleted, rec)
}

func (s *eventSink[T]) progress(string) {}

func (s *eventSink[T]) trouble(err error) error {
	return s.emit(Event[T]{Object: new(T)}, err)
}

// show shows an object that exists.
func (s *eventSink[T]) show(rec record, listed bool) error {
	was, known := s.known[rec.key]
	kind := change(known, listed, was.uid, was.rv, &rec)
	if known && kind == Added {
		if err := s.gone(rec.key, was); err != nil {
			return err
		}
	}
	if kind == "" {
		was.round = s.round
		s.known[rec.key] = was
		return nil
	}
	s.known[rec.key] = seen{rec.uid, rec.rv, s.round}
	return s.decode(kind, rec)
}

// change says what a record means to one who has, or has not, seen an object
// of the same name before: Added, Modified or, if it is not later, nothing. One
// that was listed counts also if it is older. Added of a known object means that
// the old one is gone.
func change(known, listed bool, uid types.UID, rv string, rec *record) EventType {
	switch {
	case !known:
		return Added
	case !listed && olderThan(rec.rv, rv):
		return ""
	case uid != rec.uid:
		return Added
	case rv == rec.rv && rv != "":
		return ""
	}
	return Modified
}

// gone shows that an object vanished, of which no more than this is known.
func (s *eventSink[T]) gone(key Key, was seen) error {
	delete(s.known, key)
	o := new(T)
	acc := asObject(o)
	s.codec.stamp(acc)
	acc.SetNamespace(key.Namespace)
	acc.SetName(key.Name)
	acc.SetUID(was.uid)
	return s.emit(Event[T]{Deleted, o}, nil)
}

func (s *eventSink[T]) decode(kind EventType, rec record) error {
	o := new(T)
	err := s.codec.decodeRecord(rec.meta, rec.body, rec.proto, asObject(o))
	if err != nil {
		err = &Error{Verb: "watch", Kind: s.codec.gvk.Kind, Namespace: rec.key.Namespace, Name: rec.key.Name, Err: err}
	}
	return s.emit(Event[T]{kind, o}, err)
}

func (s *eventSink[T]) emit(ev Event[T], err error) error {
	if !s.yield(ev, err) {
		return errLeft
	}
	return nil
}
