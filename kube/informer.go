package kube

import (
	"context"
	"iter"
	"strings"
	"sync"
)

// Informer tells of the changes of a store whose objects may be of any type. It decodes
// nothing: a [Change] reads the few fields that it is asked for from the encoded object,
// which takes less than a microsecond. Its counterpart is client-go's
// SharedIndexInformer.
type Informer struct {
	table *table
	leave func() bool
}

// OpenInformer returns an informer of a handle's store. The informer shares the store as
// [Reader.Store] says. The caller must close the informer. Its counterpart is GetInformer
// of controller-runtime's cache.Informers.
func OpenInformer(s AnyHandle) *Informer {
	h := s.base()
	if h.client == nil {
		h.client, h.err = &Client{}, errNoHandle
	}
	t, leave := h.client.stores.enter(h)
	return &Informer{t, sync.OnceValue(leave)}
}

// OpenStore is [OpenInformer] that also returns the store. The store runs until the
// informer is closed.
func OpenStore[T any](h Handle[T]) (*Store[T], *Informer) {
	f := OpenInformer(h)
	return &Store[T]{storeReader{table: f.table, handle: h.base()}}, f
}

// Close ends the use of the store. If nobody else uses the store, Close returns when the
// store has stopped. Loops over changes should end before Close: they may go on
// otherwise.
func (f *Informer) Close() {
	if f.leave() {
		<-f.table.done
	}
}

// Err returns the mistake in making the handle, because of which the informer never tells
// anything. It returns nil if there is none.
func (f *Informer) Err() error {
	if err := f.table.handle.err; err != nil {
		return &Error{Verb: "watch", Kind: f.table.handle.kindName(), Err: err}
	}
	return nil
}

// Kind returns the parts of the kind that are known without a request to the server.
func (f *Informer) Kind() Kind { return f.table.handle.kind }

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

// Synced reports whether the store has been filled. Its counterpart is HasSynced of
// client-go's SharedIndexInformer.
func (f *Informer) Synced() bool { return f.table.filled() }

// Sync waits until the store has been filled, as [Store.Sync] does.
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

// Changes yields the events of [Store.Watch] as values of type [Change], with the same
// promises. A Change is not decoded, and also holds the state before. The counterpart is
// an event handler of client-go's SharedIndexInformer.
func (f *Informer) Changes(ctx context.Context) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		if f.table.handle.err == nil {
			f.table.follow(ctx, yield)
		}
	}
}

// Steps yields changes as Changes does, and merges none of them. A loop that is behind is
// shown every state that the store has had meanwhile, in order, and the objects that came
// and went. It is for a loop that wakes those who depend on an object: they may have read
// any of these states from the store.
//
// The store keeps the states that the loop has not been shown. If the loop is more than
// about a thousand updates of the store behind, the steps that wait are merged as Changes
// merges them, and Synced comes again after them. The loop should then wake everybody.
// Client-go's SharedIndexInformer keeps any number of steps for an event handler.
func (f *Informer) Steps(ctx context.Context) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		if f.table.handle.err == nil {
			sub := &subscription{table: f.table, wake: make(chan struct{}, 1), every: true}
			sub.follow(ctx, yield)
		}
	}
}
