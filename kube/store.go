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

// storeReader reads the objects of a handle from a table.
type storeReader struct {
	table  *table
	handle *handle
	// narrow picks the entries of a handle that covers less than the table; nil: all.
	narrow func(*entry) bool
}

func (s storeReader) get(ctx context.Context, key Key) (object, error) {
	if err := s.table.wait(ctx); err != nil {
		return nil, s.wrap("get", key, err)
	}
	e, key, err := s.table.get(ctx, key)
	if err != nil {
		return nil, s.wrap("get", key, err)
	}
	if e == nil || s.narrow != nil && !s.narrow(e) {
		return nil, s.notFound(key)
	}
	return s.decode(e, key)
}

func (s storeReader) all(ctx context.Context) iter.Seq2[object, error] {
	return s.read(ctx, query{pick: all, matches: func(object) bool { return true }})
}

func (s storeReader) labeled(ctx context.Context, selector string) iter.Seq2[object, error] {
	sel, err := labels.Parse(selector)
	if err != nil {
		return func(yield func(object, error) bool) {
			yield(nil, s.wrap("list", Key{}, fmt.Errorf("parse label selector %q: %w", selector, err)))
		}
	}
	matches := func(o object) bool { return sel.Matches(labels.Set(o.GetLabels())) }
	may := func(e *entry) bool { return sel.Matches(e.Labels()) }
	return s.read(ctx, query{pick: labeled(sel), matches: matches, may: may})
}

func (s storeReader) ownedBy(ctx context.Context, owner types.UID) iter.Seq2[object, error] {
	owns := func(o object) bool {
		for _, ref := range o.GetOwnerReferences() {
			if ref.UID == owner {
				return true
			}
		}
		return false
	}
	may := func(e *entry) (owned bool) {
		for uid := range e.OwnerUIDs() {
			owned = owned || uid == owner
		}
		return owned
	}
	return s.read(ctx, query{by: byOwner{}, pick: ownedBy(owner), matches: owns, may: may})
}

// StoreStats holds the size and the age of a store.
type StoreStats struct {
	// Objects is the number of objects. Bytes is their encoded size, without keys and
	// indexes.
	Objects int
	Bytes   int64
	// LastHeard is the time when the watch last received something from the server: an
	// object, a bookmark (about every minute), a listing. It is zero before the first
	// sync.
	LastHeard time.Time
}

// query is a read of several objects.
type query struct {
	by   indexer // the index that pick needs, or nil
	pick pick
	// matches chooses among the objects that the server was asked for.
	matches func(object) bool
	// may reports that a written object may be among the picked ones. Nil: each may.
	may func(*entry) bool
}

func anyEntry(*entry) bool { return true }

// covers returns a function that tells whether the store's handle covers an entry of its
// table.
func (s storeReader) covers() func(*entry) bool {
	if s.narrow == nil {
		return anyEntry
	}
	return s.narrow
}

// read yields the objects of a query, once the store is synced and has seen the own
// writes of this process. It asks the server about writes that could not be seen in time.
// The loop runs over a snapshot, so nothing waits for the loop.
func (s storeReader) read(ctx context.Context, q query) iter.Seq2[object, error] {
	if q.may == nil {
		q.may = anyEntry
	}
	covers := s.covers()
	may := func(e *entry) bool { return covers(e) && q.may(e) }
	return func(yield func(object, error) bool) {
		sure, err := s.sure(ctx, q.by, may)
		if err != nil {
			yield(nil, s.wrap("list", Key{}, err))
			return
		}
		for key, e := range q.pick(sure.now) {
			if covers(e) && !sure.without(key) && !yield(s.decode(e, key)) {
				return
			}
		}
		for _, k := range sure.asked {
			if !covers(k.entry) {
				continue
			}
			o, err := s.decode(k.entry, k.key)
			if err == nil && !q.matches(o) {
				continue
			}
			if !yield(o, err) {
				return
			}
		}
		for _, err := range sure.errs {
			if !yield(nil, s.wrap("list", Key{}, err)) {
				return
			}
		}
	}
}

// sure waits for the first sync, for an index, and for the own writes of this process that may
// matter.
func (s storeReader) sure(ctx context.Context, by indexer, may func(*entry) bool) (*sure, error) {
	if err := s.table.wait(ctx); err != nil {
		return nil, err
	}
	if by != nil {
		if err := s.table.build(ctx, by); err != nil {
			return nil, err
		}
	}
	return s.table.sureOf(ctx, may)
}

func (s storeReader) decode(e *entry, key Key) (object, error) {
	o := s.handle.newObject()
	if err := e.Decode(s.handle.codec, o); err != nil {
		return o, s.wrap("read", key, err)
	}
	return o, nil
}

func (s storeReader) notFound(key Key) error {
	resource := s.handle.kind.groupResource()
	if resource.Resource == "" {
		resource.Resource = s.handle.kind.Kind
	}
	return s.wrap("get", key, apierrors.NewNotFound(resource, key.Name))
}

func (s storeReader) wrap(verb string, key Key, err error) error {
	if e := (*Error)(nil); errors.As(err, &e) && verb != "sync" {
		return err
	}
	return &Error{Verb: verb, Kind: s.handle.kindName(), Namespace: key.Namespace, Name: key.Name, Err: err}
}

// ErrStopped is wrapped by the errors of reads of a store that has stopped or is stopping.
var ErrStopped = errors.New("the store has stopped")
