package kube

import (
	"context"
	"iter"
	"strings"
	"sync"
)

// Informer tells of the changes of a store whose objects may be of any type. It
// decodes nothing: a [Change] reads the few fields that it is asked for from the
// encoded object, which takes less than a microsecond. Its counterpart is client-go's
// SharedIndexInformer.
type Informer struct {
	table *table
	leave func() bool
}

// OpenInformer returns an informer of the store of a handle, which it shares as
// [Reader.Store] says. It must be closed.
func OpenInformer(s AnyHandle) *Informer {
	h := s.base()
	if h.client == nil {
		h.client, h.err = &Client{}, errNoHandle
	}
	t, leave := h.client.stores.enter(h)
	return &Informer{t, sync.OnceValue(leave)}
}

// OpenStore is [OpenInformer] with the store itself, which runs until the
// informer is closed.
func OpenStore[T any](h Handle[T]) (*Store[T], *Informer) {
	f := OpenInformer(h)
	return &Store[T]{table: f.table, reader: Reader[T]{h.base()}}, f
}

// Close ends the use of the store. If nobody else uses it, Close returns when it
// has stopped. Loops over changes should have ended: they may go on otherwise.
func (f *Informer) Close() {
	if f.leave() {
		<-f.table.done
	}
}

// Err returns why the informer never tells anything: a mistake in making the handle.
func (f *Informer) Err() error {
	if err := f.table.handle.err; err != nil {
		return &Error{Verb: "watch", Kind: f.table.handle.kindName(), Err: err}
	}
	return nil
}

// Kind returns what is known of the kind without asking the server.
func (f *Informer) Kind() Kind { return f.table.handle.kind }

// Name names the store for people: its kind with the group, and what narrows it
// down, as in "deployment.apps in default,prod app=web".
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

// Synced reports whether the store has been filled.
func (f *Informer) Synced() bool {
	select {
	case <-f.table.synced:
		return true
	default:
		return false
	}
}

// Filled is closed when the store has been filled.
func (f *Informer) Filled() <-chan struct{} { return f.table.synced }

// Trouble returns what the store has trouble with at the moment, nil if all is
// well. Of several namespaces it is the trouble that has lasted longest. As long as
// there is one, what the store holds may be out of date: watches do not work, or
// the kind is not served. An object that could not be read is a trouble for a
// minute.
func (f *Informer) Trouble() error { return f.table.troubles.longest() }

// Stats tells the size of the store.
func (f *Informer) Stats() StoreStats { return f.table.stats() }

// Done is closed when the store has stopped and all its goroutines have ended.
func (f *Informer) Done() <-chan struct{} { return f.table.done }

// Changes yields what [Store.Watch] yields, and keeps what it promises, as a [Change]:
// not decoded, and with the state before. Its counterpart is a handler that is added to
// client-go's SharedIndexInformer.
func (f *Informer) Changes(ctx context.Context) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		if f.table.handle.err == nil {
			f.table.follow(ctx, yield)
		}
	}
}
