package kube

import (
	"context"
	"errors"
	"iter"
	"sync"

	"github.com/pintle-go/pintle/kube/internal/wire"
)

// WatchEventType is the type of a [WatchEvent] or a [Change]. The values are those of
// client-go's watch.EventType, and two marks.
type WatchEventType string

const (
	Added    WatchEventType = "ADDED"
	Modified WatchEventType = "MODIFIED"
	Deleted  WatchEventType = "DELETED"
	// Synced marks that the events so far add up to one state of the server: after the
	// first listing and after every later one. Its counterpart is Event::InitDone of
	// kube-rs's watcher.
	Synced WatchEventType = "SYNCED"
	// Recovered tells that a reported [Trouble] is over.
	Recovered WatchEventType = "RECOVERED"
)

// IsChange reports that an object was added, modified or deleted. It is false for the
// marks Synced and Recovered.
func (t WatchEventType) IsChange() bool { return t == Added || t == Modified || t == Deleted }

// WatchEvent is an event of [Reader.Watch]: an object that was added,
// modified or deleted, or a mark. Its counterpart is client-go's watch.Event. It has
// nothing to do with the Events that kubectl shows, which package event writes.
//
// It does not hold the object's earlier state: the watch of a Reader keeps no objects and
// cannot know that state. If the earlier state matters, use the [Change] that an
// [Informer] yields.
type WatchEvent[T any] struct {
	Type WatchEventType
	// Object is the present state of the object or, if it was deleted, its last state. It
	// is never nil. In a mark it is empty. If an object vanished while a Reader's watch
	// was cut off, Object has the metadata that is known: name, namespace and uid.
	Object *T
}

// Watch yields the objects of the handle as Added, then Synced, then every change. It
// does not end by itself: it resumes a watch that ended or broke, lists again when the
// watch cannot be resumed, and waits for a kind that is not installed. It ends when ctx
// ends or the loop is left, and leaves no goroutine behind. Its counterparts are the
// reflector of client-go and the watcher of kube-rs. [Informer.Changes]
// yields the same events from a cache.
//
// Guarantees: an object is never seen older than before, unless the server's storage was
// restored from a backup; a new object under an old name, with another uid, is a Deleted
// and an Added; objects that vanished while the watch was cut off are Deleted before the
// next Synced; events add up to one state of the server at every Synced. Changes may be
// merged: not every intermediate state of an object is seen.
//
// A watch that was cut is resumed within 50 ms, and within three seconds of the end of an
// outage. Three watches in a row that fail at once lead to a new listing, for any reason.
// While no watch works, Watch lists again and again, at first after a fraction of a
// second and at last every 15 to 30 seconds, with a Synced after each listing. Watch also
// does so for a kind whose lists have no resource version, such as the kinds of
// metrics.k8s.io.
//
// Watch asks for all objects in one list, which is the quickest way, and reads it object by
// object. If the server or a proxy in front of it does not bear that list, Watch lists in
// pages of 500 objects, and asks again for a page that is refused for now, up to five times
// in a row. If the pages expire before they are read, and the single list is still too
// large, it reads the objects as a streaming list (KEP-3157). A list that does not end is a
// Trouble.
//
// Errors: a [Trouble] reports a failure while Watch goes on by itself, with an empty
// WatchEvent. The event Recovered tells that the trouble is over. If the handle has
// several namespaces, Recovered tells that none of them is in trouble. An object that
// does not decode is yielded with its error and its metadata. An error in the handle
// itself, such as a type that does not name its kind, is yielded once and ends the watch.
// The end of ctx ends the watch too, but its cause is not yielded.
//
// Caveats: the server waits for the loop's body. If the body blocks for long, the server
// cuts the watch off and Watch resumes it, at the cost of the object's history. An object
// whose metadata cannot be read is left out, with a Trouble. managedFields are dropped:
// Get and List have them.
func (r Reader[T]) Watch(ctx context.Context) iter.Seq2[WatchEvent[T], error] {
	return typedEvents[T](r.base().watch(ctx))
}

// watchEvent is a WatchEvent of any type. A mark has no object.
type watchEvent struct {
	kind   WatchEventType
	object object
}

// typedEvents yields events with objects by their type.
func typedEvents[T any](events iter.Seq2[watchEvent, error]) iter.Seq2[WatchEvent[T], error] {
	return func(yield func(WatchEvent[T], error) bool) {
		events(func(ev watchEvent, err error) bool {
			o := typed[T](ev.object)
			if o == nil {
				o = new(T)
			}
			return yield(WatchEvent[T]{ev.kind, o}, err)
		})
	}
}

func (h *handle) watch(ctx context.Context) iter.Seq2[watchEvent, error] {
	return func(yield func(watchEvent, error) bool) {
		err := h.err
		if err == nil && h.codec == nil {
			err = errNoHandle
		}
		if err != nil {
			yield(watchEvent{}, &Error{Verb: "watch", Kind: h.kindName(), Err: err})
			return
		}
		if len(h.namespaces) > 1 {
			h.watchSeveral(ctx, yield)
			return
		}
		// It ends with ctx or the loop, which is no error.
		_ = h.reflector(h.namespace(), h.eventSink(yield)).run(ctx)
	}
}

// watchSeveral merges the watches of several namespaces.
func (h *handle) watchSeveral(ctx context.Context, yield func(watchEvent, error) bool) {
	type item struct {
		ev        watchEvent
		err       error
		namespace string
		first     bool // the namespace's first sync mark
	}
	ctx, cancel := context.WithCancel(ctx)
	items := make(chan item)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for _, ns := range h.namespaces {
		synced := false
		s := h.eventSink(func(ev watchEvent, err error) bool {
			first := ev.kind == Synced && !synced
			synced = synced || first
			select {
			case items <- item{ev, err, ns, first}:
				return true
			case <-ctx.Done():
				return false
			}
		})
		running.Go(func() { _ = h.reflector(ns, s).run(ctx) })
	}
	missing := len(h.namespaces)
	troubled := make(map[string]bool)
	for {
		select {
		case <-ctx.Done():
			return
		case it := <-items:
			// The first marks of the namespaces become one mark, after the last of them.
			if it.first {
				missing--
			}
			if it.ev.kind == Synced && missing > 0 {
				continue
			}
			if errors.As(it.err, new(*Trouble)) {
				troubled[it.namespace] = true
			}
			if it.ev.kind == Recovered {
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

func (h *handle) reflector(namespace string, s sink) *reflector {
	return &reflector{
		client: h.client, kind: h.kind, codec: h.codec, recorder: wire.NewRecorder(h.codec),
		namespace: namespace, selector: h.selector, sink: s,
	}
}

// namespace returns the handle's only namespace, or "" for all.
func (h *handle) namespace() string {
	if len(h.namespaces) == 1 {
		return h.namespaces[0]
	}
	return ""
}

// kindName names the kind in errors, even if the kind is not known.
func (h *handle) kindName() string {
	switch {
	case h.kind.Kind != "":
		return h.kind.Kind
	case h.goType != nil:
		return h.goType.String()
	}
	return "objects"
}

var errLeft = errors.New("the loop ended")
