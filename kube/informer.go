package kube

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Informer keeps the store of a handle running: the objects of the handle, which a watch
// keeps up to date. It yields their changes, and [Reader.Cached] reads the objects. The
// objects may be of any type: an Informer decodes nothing. A [Change] reads the few fields
// that it is asked for from the encoded object, which takes less than a microsecond. Its
// counterpart is client-go's SharedIndexInformer.
type Informer struct {
	table *table
	leave func() (last bool)
	// forget ends the wait for the context of Open.
	forget func() bool
}

// Open returns an informer of the handle's objects. All informers that one client opens for
// the same kind, type, namespaces and selectors share one store. The store runs until each
// of them is closed or its ctx has ended: then [Informer.Done] is closed. Stopping waits
// only for the store's goroutines, and a request in flight does not hold them up.
//
// A program opens informers when it starts; a controller opens those of its handles. The
// client's logger logs the troubles of the store. [Reader.Watch] says from which failures a
// store recovers. Its counterparts are GetInformer of controller-runtime's cache.Informers
// and reflector::store of kube-rs.
func (r Reader[T]) Open(ctx context.Context) *Informer {
	return r.base().open(ctx)
}

func (h *handle) open(ctx context.Context) *Informer {
	if h.client == nil {
		h = &handle{client: &Client{}, err: errNoHandle}
	}
	t, leave := h.client.stores.enter(h)
	f := &Informer{table: t, leave: sync.OnceValue(leave)}
	f.forget = context.AfterFunc(ctx, func() { f.leave() }) // at once, if ctx has ended
	return f
}

// Close ends the use of the store, as the end of the ctx of [Reader.Open] does. If nobody
// else uses the store, Close returns when the store has stopped. Loops over changes should
// end before Close: they may go on otherwise.
func (f *Informer) Close() {
	f.forget()
	if f.leave() {
		<-f.table.done
	}
}

// err returns the mistake in making the handle, because of which the informer never tells
// anything. It returns nil if there is none.
func (f *Informer) err() error {
	if err := f.table.handle.err; err != nil {
		return &Error{Verb: "watch", Kind: f.table.handle.kindName(), Err: err}
	}
	return nil
}

// Name names the store for people: its kind with the group, and the namespaces and
// selectors that narrow it, as in "deployment.apps in default,prod app=web".
func (f *Informer) Name() string {
	h := f.table.handle
	name := strings.ToLower(h.kind.Kind)
	if h.kind.Group != "" {
		name += "." + h.kind.Group
	}
	if len(h.namespaces) > 0 {
		name += " in " + strings.Join(h.namespaces, ",")
	}
	for _, s := range []string{h.selector.label, h.selector.field} {
		if s != "" {
			name += " " + s
		}
	}
	return name
}

// Kind returns the kind of the objects.
func (f *Informer) Kind() Kind { return f.table.handle.kind }

// Synced reports whether the store has been filled. Its counterpart is HasSynced of
// client-go's SharedIndexInformer.
func (f *Informer) Synced() bool { return f.table.filled() }

// Sync waits until the store has been filled. If ctx ends first, the error names the latest
// trouble of the store. Its counterpart is WaitForCacheSync of controller-runtime's cache
// and of client-go.
func (f *Informer) Sync(ctx context.Context) error {
	if err := f.table.wait(ctx); err != nil {
		return &Error{Verb: "sync", Kind: f.table.handle.kindName(), Err: err}
	}
	return nil
}

// Trouble returns the present trouble of the store, or nil if there is none. If several
// namespaces have trouble, it returns the one that has lasted longest. While there is
// trouble, the content of the store may be out of date: watches do not work, or the kind
// is not served. An object that could not be read counts as trouble for one minute.
func (f *Informer) Trouble() error { return f.table.troubles.longest() }

// Stats returns the size of the store.
func (f *Informer) Stats() StoreStats { return f.table.stats() }

// Done returns a channel that is closed when the store has stopped and all its goroutines
// have ended.
func (f *Informer) Done() <-chan struct{} { return f.table.done }

// Get returns an object of an informer's store, as [Cached.Get] does. Cached chooses the
// store; Get is for a loop over changes that must read the very store whose change it was
// shown, as a controller does. The namespace of the key counts only for namespaced kinds. T
// must be the type of the informer's handle. Its counterpart is GetByKey of the Indexer of
// client-go's SharedIndexInformer.
func Get[T any](ctx context.Context, f *Informer, key Key) (*T, error) {
	if err := f.err(); err != nil {
		return nil, err
	}
	h := f.table.handle
	if h.goType != reflect.TypeFor[T]() {
		return nil, fmt.Errorf("get %s: the type of the informer's handle is not %s", h.kindName(), reflect.TypeFor[T]())
	}
	o, err := storeReader{table: f.table, handle: h}.get(ctx, key)
	return typed[T](o), err
}

// ChangesOption is an option of [Informer.Changes].
type ChangesOption string

// EveryStep has a loop over changes shown every state that the store has had, in order, and
// the objects that came and went. It is for a loop that wakes those who depend on an object:
// they may have read any of these states from the store.
//
// The store keeps the states that the loop has not been shown. If the loop is more than
// about a thousand updates of the store behind, the steps that wait are merged, and Synced
// comes again after them. The loop should then wake everybody. Client-go's
// SharedIndexInformer keeps any number of steps for an event handler.
const EveryStep ChangesOption = "every step"

// Changes yields the objects as Added, then Synced, then every change. It ends when ctx
// ends, the loop is left or the store stops. [Decode] returns the object of a change. Unlike
// [Reader.Watch], it costs the server nothing, and it yields no [Trouble]: the store logs
// those. If the handle has an error, it yields nothing, and [Informer.Sync] returns the
// error. Its counterpart is an event handler of client-go's SharedIndexInformer.
//
// A slow loop holds up neither the store nor other loops. It gets the newest state of
// each object, and steps in between are merged, unless [EveryStep] is given: a Modified goes
// from the state that the loop last saw to the present state. Each Added object is Deleted at
// the end, even if changes were merged. A new object under an old name is a Deleted and an
// Added. A Deleted has the last state of the object or, if a loop is more than about a
// thousand deletions behind, the state that the loop last saw. An object that came and went
// while the loop was behind is left out, unless this process has ensured it. Synced comes
// once. There is no order among objects. If several objects have changed, each of them is
// yielded once before any of them is yielded again.
//
// A loop that sleeps keeps in memory the objects as it last saw them, and nothing else.
func (f *Informer) Changes(ctx context.Context, options ...ChangesOption) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		if f.table.handle.err != nil {
			return
		}
		sub := &subscription{table: f.table, wake: make(chan struct{}, 1), every: slices.Contains(options, EveryStep)}
		sub.follow(ctx, yield)
	}
}
