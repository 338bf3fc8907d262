package kube

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// Store holds the objects of a handle, kept up to date by a watch. What it
// returns is the caller's own: objects are kept encoded and decoded on every
// read, which costs some 20 µs for a Pod and saves most of the memory.
//
// Reads wait for the first sync. They are never older than what this process
// itself has written to the kind through the same client: a read that would be
// waits, at most a second, for the watch to catch up, and then asks the server.
// The answers of writes in flight are not waited for.
//
// managedFields are dropped, see [Reader.WithManagedFields].
type Store[T any] struct {
	table  *table
	reader Reader[T]
}

// Store returns a store of the handle's objects. All who ask one client for the
// same kind, type, namespaces and selectors share one store. It runs until ctx,
// and the contexts of all who share it, have ended: then [Store.Done] is closed.
// Stopping waits for nothing but its goroutines, which a request in flight does
// not hold up.
//
// What goes wrong meanwhile is logged by the client's logger; see [Reader.Watch]
// for what it recovers from.
func (r Reader[T]) Store(ctx context.Context) *Store[T] {
	return &Store[T]{r.client.stores.open(ctx, r.handle), r}
}

// Sync waits until the store has been filled. If ctx ends first the error says
// what the store last had trouble with.
func (s *Store[T]) Sync(ctx context.Context) error {
	if err := s.table.wait(ctx); err != nil {
		return s.wrap("sync", Key{}, err)
	}
	return nil
}

// Synced reports whether the store has been filled.
func (s *Store[T]) Synced() bool {
	select {
	case <-s.table.synced:
		return true
	default:
		return false
	}
}

// Done is closed when the store has stopped and all its goroutines have ended.
func (s *Store[T]) Done() <-chan struct{} { return s.table.done }

// Get returns an object. It is not found (apierrors.IsNotFound) if the store's
// handle does not cover it. The namespace counts only for namespaced kinds.
func (s *Store[T]) Get(ctx context.Context, key Key) (*T, error) {
	if err := s.table.wait(ctx); err != nil {
		return nil, s.wrap("get", key, err)
	}
	e, key, live, err := s.table.get(ctx, key)
	if err != nil {
		return nil, s.wrap("get", key, err)
	}
	if live {
		o, err := s.live(ctx, key)
		if err == nil && o == nil {
			err = s.notFound(key)
		}
		return o, err
	}
	if e == nil {
		return nil, s.notFound(key)
	}
	return s.decode(e, key)
}

// All yields all objects, in no order. The objects are of one moment.
func (s *Store[T]) All(ctx context.Context) iter.Seq2[*T, error] {
	return s.read(ctx, nil, all, func(*T) bool { return true })
}

// Labeled yields the objects whose labels match a selector. It looks at the
// labels of all and decodes those that match.
func (s *Store[T]) Labeled(ctx context.Context, selector string) iter.Seq2[*T, error] {
	sel, err := labels.Parse(selector)
	if err != nil {
		return func(yield func(*T, error) bool) {
			yield(nil, s.wrap("list", Key{}, fmt.Errorf("parse label selector %q: %w", selector, err)))
		}
	}
	matches := func(o *T) bool { return sel.Matches(labels.Set(asObject(o).GetLabels())) }
	return s.read(ctx, nil, labeled(sel), matches)
}

// OwnedBy yields the objects that have an owner reference with a uid. The first
// call builds an index; further ones scan nothing.
func (s *Store[T]) OwnedBy(ctx context.Context, owner types.UID) iter.Seq2[*T, error] {
	owns := func(o *T) bool {
		for _, ref := range asObject(o).GetOwnerReferences() {
			if ref.UID == owner {
				return true
			}
		}
		return false
	}
	return s.read(ctx, byOwner{}, ownedBy(owner), owns)
}

// StoreStats are the size and the age of a store.
type StoreStats struct {
	// Objects is how many there are, Bytes what they take encoded, without
	// keys and indexes.
	Objects int
	Bytes   int64
	// LastEvent is when the watch last heard from the server: an object, a
	// bookmark (about every minute), a listing. Zero before the first sync.
	LastEvent time.Time
}

// Stats tells the size of the store.
func (s *Store[T]) Stats() StoreStats { return s.table.stats() }

// read yields what pick finds, by an index if it needs one, once the store is synced
// and has seen this process's own writes; what it could not see in time is read from
// the server and yielded if matches says so. The loop runs over a snapshot, which
// nobody waits for.
func (s *Store[T]) read(ctx context.Context, by indexer, pick pick, matches func(*T) bool) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		made, err := s.ready(ctx, by)
		if err != nil {
			yield(nil, s.wrap("list", Key{}, err))
			return
		}
		unseen, without := s.table.unseen(made)
		for key, e := range pick(s.table.now()) {
			if !without(key, e) && !yield(s.decode(e, key)) {
				return
			}
		}
		for o, err := range s.liveAll(ctx, unseen) {
			if err == nil && !matches(o) {
				continue
			}
			if !yield(o, err) {
				return
			}
		}
	}
}

// ready waits for the first sync, for an index and for this process's own writes,
// whose number it returns.
func (s *Store[T]) ready(ctx context.Context, by indexer) (made uint64, err error) {
	if err := s.table.wait(ctx); err != nil {
		return 0, err
	}
	if by != nil {
		if err := s.table.build(ctx, by); err != nil {
			return 0, err
		}
	}
	return s.table.settle(ctx)
}

// askedEach is how many objects are read from the server one by one, at most.
const askedEach = 16

// liveAll reads objects from the server, because the store has not seen writes
// of this process.
func (s *Store[T]) liveAll(ctx context.Context, keys []Key) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		// What a list with a selector lacks may still be there.
		if len(keys) <= askedEach || s.reader.selector.label != "" || s.reader.selector.field != "" {
			for _, key := range keys {
				if o, err := s.live(ctx, key); (o != nil || err != nil) && !yield(o, err) {
					return
				}
			}
			return
		}
		before := s.table.entriesOf(keys)
		for o, err := range s.reader.List(ctx) {
			key := Key{}
			if err == nil {
				key = KeyOf(asObject(o))
			}
			e, asked := before[key]
			switch {
			case err != nil:
				yield(o, err)
				return
			case !asked:
				continue
			}
			delete(before, key)
			s.table.found(key, e, asObject(o), true)
			if !yield(s.trim(o), nil) {
				return
			}
		}
		for key, e := range before {
			s.table.found(key, e, nil, false)
		}
	}
}

// trim drops from an object what the store's have not.
func (s *Store[T]) trim(o *T) *T {
	if !s.reader.codec.managed {
		asObject(o).SetManagedFields(nil)
	}
	return o
}

// live reads an object from the server, because the store has not seen a write
// of this process. It returns nil if there is none in the handle.
func (s *Store[T]) live(ctx context.Context, key Key) (*T, error) {
	before := s.table.entry(key)
	o, fits, err := s.ask(ctx, key)
	if err != nil {
		return nil, err
	}
	if o == nil {
		s.table.found(key, before, nil, false)
		return nil, nil
	}
	s.table.found(key, before, asObject(o), fits)
	if !fits {
		return nil, nil
	}
	return s.trim(o), nil
}

// ask gets an object from the server, nil if there is none, and tells whether
// the handle's selectors fit it.
func (s *Store[T]) ask(ctx context.Context, key Key) (o *T, fits bool, err error) {
	r := s.reader
	if key.Namespace != "" {
		r.namespaces = []string{key.Namespace}
	}
	if r.selector.field != "" {
		// Only the server can tell, and only of a list.
		r.selector.field += ",metadata.name=" + key.Name
		for o, err := range r.List(ctx) {
			return o, true, err
		}
	}
	o, err = r.Get(ctx, key.Name)
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	return o, r.selector.field == "" && r.selector.fits(asObject(o)), nil
}

func (s *Store[T]) decode(e *entry, key Key) (*T, error) {
	o := new(T)
	if err := e.decode(s.reader.codec, asObject(o)); err != nil {
		return o, s.wrap("read", key, err)
	}
	return o, nil
}

func (s *Store[T]) notFound(key Key) error {
	resource := s.reader.kind.GroupResource()
	if resource.Resource == "" {
		resource.Resource = s.reader.kind.Kind
	}
	return s.wrap("get", key, apierrors.NewNotFound(resource, key.Name))
}

func (s *Store[T]) wrap(verb string, key Key, err error) error {
	if e := (*Error)(nil); errors.As(err, &e) && verb != "sync" {
		return err
	}
	return &Error{Verb: verb, Kind: s.reader.kindName(), Namespace: key.Namespace, Name: key.Name, Err: err}
}

// ErrStopped is wrapped by reads of a store that has stopped.
var ErrStopped = errors.New("the store has stopped")
