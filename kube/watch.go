package kube

import (
	"context"
	"errors"
	"iter"
	"sync"

	"github.com/pintle-go/pintle/kube/internal/wire"
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
	// Recovered tells that a [Trouble] that was reported is over.
	Recovered EventType = "RECOVERED"
)

// IsChange reports that an event of the type is about an object: that it is none
// of the marks Synced and Recovered.
func (t EventType) IsChange() bool { return t == Added || t == Modified || t == Deleted }

// Event is a change of an object, or a mark. Object is never nil: of an object that
// vanished while the watch was cut off it holds the metadata that is known
// (name, namespace, uid), and in a mark it is empty.
type Event[T any] struct {
	Type   EventType
	Object *T
}

// Watch yields the objects of the handle as Added, then Synced, then every
// change. It does not end by itself: it resumes a watch that ended or broke,
// lists again when the watch cannot be resumed, and waits for a kind that is not
// installed. It ends when ctx does or the loop is left, and leaves no goroutine
// behind. It is the informer of client-go without a cache.
//
// Guarantees: an object is never seen older than before, unless the server's
// storage was restored from a backup; a new object under an old name, with
// another uid, is a Deleted and an Added; objects that vanished while the watch
// was cut off are Deleted before the next Synced; events add up to one state of
// the server at every Synced. Changes may be merged: not every intermediate state
// of an object is seen.
//
// A watch that was cut is resumed within 50 ms, and within three seconds of the
// end of an outage. Three watches in a row that fail at once lead to a new listing,
// whatever the reason. While no watch works, Watch lists again and again, at first
// after a fraction of a second and at last every 15 to 30 seconds, with a Synced
// after each listing. So it does with a kind whose lists have no resource version,
// as those of metrics.k8s.io.
//
// Errors: a [Trouble] reports a failure while Watch goes on by itself, with a zero
// Event; the event Recovered tells that it is over. For several namespaces it tells
// that none is in trouble. An object that does not decode is yielded with its error
// and its metadata. An error in the handle itself, such as a type that does not
// name its kind, is yielded once and ends the watch, as does the end of ctx,
// whose cause is not yielded.
//
// Caveats: the loop's body has the server waiting: a watch whose body blocks
// for long is cut off by the server and resumed, at the cost of its history.
// An object whose metadata cannot be read is left out, with a Trouble.
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
		ev        Event[T]
		err       error
		namespace string
		first     bool // the namespace's first sync mark
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
			case items <- item{ev, err, ns, first}:
				return true
			case <-ctx.Done():
				return false
			}
		}}
		running.Go(func() { _ = r.reflector(ns, s).run(ctx) })
	}
	missing := len(r.namespaces)
	troubled := make(map[string]bool)
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
			if errors.As(it.err, new(*Trouble)) {
				troubled[it.namespace] = true
			}
			if it.ev.Type == Recovered {
				delete(troubled, it.namespace)
				if len(troubled) > 0 {
					continue
				}
			}
			if !yield(it.ev, it.err) {
				return
			}
		}
	}
}

func (h handle) reflector(namespace string, s sink) *reflector {
	return &reflector{
		client: h.client, kind: h.kind, codec: h.codec, recorder: wire.NewRecorder(h.codec),
		namespace: namespace, selector: h.selector, sink: s,
	}
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
