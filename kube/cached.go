package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// ErrNotCached means that no running store serves a [Cached] read. The error of the read
// wraps it. Its counterpart is controller-runtime's cache.ErrResourceNotCached.
var ErrNotCached = errors.New("no store that runs in this program holds these objects")

// Cached reads the objects of a handle from a store that runs in this program. As a rule
// that is the store of a controller; [Reader.Open] opens one. A Cached is a plain value. It
// starts nothing and needs no end: each call finds the store that runs at the moment.
//
// A store serves the handles of the same client, kind and type that cover no more than
// the store. A store of all namespaces serves a handle that is narrowed by In. A store
// serves a handle that is narrowed further by Labeled. Where no store runs, every call
// returns an error that wraps [ErrNotCached] and says how to have a store.
//
// The caller owns the objects that a read returns: they are kept encoded and decoded on
// every read, which costs some 20 µs for a Pod and saves most of the memory. apiVersion and
// kind are set. managedFields, which are most of the metadata, are dropped: Get and List of
// the handle itself have them.
//
// Reads wait for the first sync. They are never older than the own writes of this process
// to the kind, made through the same client. Stores of the writer's type take the object in
// the answer to a write at once. If a read would be older all the same, as after a write of
// the status or one whose answer was lost, it waits, at most a second, for the watch to
// catch up, and then asks the server by a list. If that list is
// older too, the read returns an error. Reads do not wait for the answers of writes in
// flight. A read that needs no wait costs no request. A store and its reads need the rights
// to list and to watch the kind, and no other right.
//
// Its counterparts are the client of a controller-runtime manager, which reads from the
// manager's cache, a lister of client-go, and the reflector Store of kube-rs.
type Cached[T any] struct{ handle *handle }

// Cached returns the reads of the handle's objects that are served from memory. Get and
// List of the handle itself ask the server. Its counterpart is controller-runtime's
// Manager.GetClient, and that of the handle's own reads is Manager.GetAPIReader.
func (r Reader[T]) Cached() Cached[T] { return Cached[T](r) }

// Get returns an object. As [Reader.Get], it needs a handle that is narrowed to the object's
// namespace, if the kind is namespaced. The error is apierrors.IsNotFound if there is no
// such object, or if the handle's selectors do not match it. Its counterparts are
// controller-runtime's client.Reader.Get and Store::get of kube-rs's reflector.
func (c Cached[T]) Get(ctx context.Context, name string) (*T, error) {
	o, err := c.handle.orNone().cachedGet(ctx, name)
	return typed[T](o), err
}

func (h *handle) cachedGet(ctx context.Context, name string) (object, error) {
	key := Key{h.namespace(), name}
	for {
		s, err := h.running("get", key)
		if err != nil {
			return nil, err
		}
		o, err := s.get(ctx, key)
		if apierrors.IsNotFound(err) {
			if wrong := h.misplaced(ctx, key); wrong != nil {
				err = s.wrap("get", key, wrong)
			}
		}
		if !s.stopped(err) {
			return o, err
		}
	}
}

// misplaced returns the reason why the kind's scope does not allow an object of a key. It
// asks the server only if the scope that is known does not allow one.
func (h *handle) misplaced(ctx context.Context, key Key) error {
	fits := func(kind Kind) error { return cmp.Or(h.single(kind), inScope(kind, key.Namespace)) }
	if fits(h.client.discovery.learned(h.kind)) == nil {
		return nil
	}
	_, err := h.client.discovery.resolveFor(ctx, h.kind, fits)
	return err
}

// All yields all objects of the handle, in no order. The objects are of one moment. Its
// counterparts are controller-runtime's client.Reader.List and Store::state of kube-rs's
// reflector.
func (c Cached[T]) All(ctx context.Context) iter.Seq2[*T, error] {
	return cached[T](c.handle.orNone(), func(s storeReader) iter.Seq2[object, error] { return s.all(ctx) })
}

// Labeled yields the objects whose labels match a selector. It looks at the labels of all
// objects, and decodes the objects that match. Its counterpart is controller-runtime's
// client.MatchingLabelsSelector.
func (c Cached[T]) Labeled(ctx context.Context, selector string) iter.Seq2[*T, error] {
	return cached[T](c.handle.orNone(), func(s storeReader) iter.Seq2[object, error] { return s.labeled(ctx, selector) })
}

// OwnedBy yields the objects that have an owner reference with a uid. The first call builds
// an index; later calls scan nothing.
func (c Cached[T]) OwnedBy(ctx context.Context, owner types.UID) iter.Seq2[*T, error] {
	return cached[T](c.handle.orNone(), func(s storeReader) iter.Seq2[object, error] { return s.ownedBy(ctx, owner) })
}

// cached finds the store when the loop begins.
func cached[T any](h *handle, read func(storeReader) iter.Seq2[object, error]) iter.Seq2[*T, error] {
	return typedSeq[T](func(yield func(object, error) bool) {
		for again := true; again; {
			again = false
			s, err := h.running("list", Key{})
			if err != nil {
				yield(nil, err)
				return
			}
			begun := false
			for o, err := range read(s) {
				if !begun && s.stopped(err) {
					again = true
					break
				}
				begun = true
				if !yield(o, err) {
					return
				}
			}
		}
	})
}

// stopped reports that a read failed because its store stopped before the read could
// begin. Another store may serve the read then: the stopped one is not found any more.
func (s storeReader) stopped(err error) bool {
	return errors.Is(err, ErrStopped) && s.table.left.Load()
}

// running returns the reads of the running store that serves the handle.
func (h *handle) running(verb string, key Key) (s storeReader, err error) {
	err = h.err
	if err == nil && (h.client == nil || h.codec == nil) {
		err = errNoHandle
	}
	var t *table
	if err == nil {
		t = h.client.stores.serving(h)
	}
	if err == nil && t == nil {
		err = fmt.Errorf("%w: name the handle of %s in a controller's Owns, Watches or Reads, "+
			"or open a store with the handle's Open when the program starts", ErrNotCached, h.kindName())
	}
	if err != nil {
		return s, &Error{Verb: verb, Kind: h.kindName(), Namespace: key.Namespace, Name: key.Name, Err: err}
	}
	return storeReader{table: t, handle: h, narrow: h.narrowed(t.handle)}, nil
}

// narrowed returns a function that picks the entries of a handle from those of a wider
// handle. It returns nil if both handles have the same entries.
func (h *handle) narrowed(wide *handle) func(*entry) bool {
	byNamespace := !slices.Equal(h.namespaces, wide.namespaces)
	byLabel := h.selector.label != wide.selector.label
	if !byNamespace && !byLabel {
		return nil
	}
	namespaces, labels := h.namespaces, h.selector.labels // a function that has h would have a copy of it made
	return func(e *entry) bool {
		return (!byNamespace || e.IsIn(namespaces)) && (!byLabel || labels.Matches(e.Labels()))
	}
}

// covers reports that a handle has all namespaces of another handle, or more.
func (h *handle) covers(other *handle) bool {
	lacks := func(ns string) bool { return !h.hasNamespace(ns) }
	return len(h.namespaces) == 0 || len(other.namespaces) > 0 && !slices.ContainsFunc(other.namespaces, lacks)
}

// hasNamespace reports that the handle covers the objects of a namespace.
func (h *handle) hasNamespace(namespace string) bool {
	return len(h.namespaces) == 0 || slices.Contains(h.namespaces, namespace)
}
