package kube

import (
	"context"
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Index finds the objects of a store by values of K.
type Index[T any, K comparable] struct {
	store *Store[T]
	keys  keyIndex[K]
	of    func(*T) []K
}

// NewIndex adds an index to a store: of returns the values that an object is to
// be found by. It is called for every object there is and for every change, and
// must not block. An object that does not decode is in no index. The index lasts
// as long as the store: make it once.
func NewIndex[T any, K comparable](s *Store[T], of func(*T) []K) *Index[T, K] {
	x := &Index[T, K]{store: s, of: of, keys: newKeyIndex[K]()}
	t := s.table
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, e := range t.entries {
		x.update(key, e)
	}
	t.indexes = append(t.indexes, x)
	return x
}

// All yields the objects that have value k, in no order. It looks at no others.
func (x *Index[T, K]) All(ctx context.Context, k K) iter.Seq2[*T, error] {
	pick := func() []keyed { return x.store.table.pick(x.keys.at[k]) }
	return x.store.read(ctx, pick, func(o *T) bool { return slices.Contains(x.of(o), k) }, anyEntry)
}

// Values returns the values that there are objects for, in no order.
func (x *Index[T, K]) Values() []K {
	t := x.store.table
	t.mu.RLock()
	defer t.mu.RUnlock()
	values := make([]K, 0, len(x.keys.at))
	for v := range x.keys.at {
		values = append(values, v)
	}
	return values
}

// update notes an object's values; a nil entry has none.
func (x *Index[T, K]) update(key Key, e *entry) {
	var values []K
	if e != nil {
		o := new(T)
		if err := e.decode(x.store.reader.codec, asObject(o)); err == nil {
			values = x.of(o)
		}
	}
	x.keys.set(key, values)
}

// indexer is an index as the table sees it: called with the table's mu held.
type indexer interface {
	update(key Key, e *entry)
}

// ownerIndex finds objects by the uids of their owners, without decoding them.
type ownerIndex struct{ keyIndex[types.UID] }

func (x *ownerIndex) update(key Key, e *entry) {
	var owners []types.UID
	if e != nil {
		e.owners(func(uid types.UID) { owners = append(owners, uid) })
	}
	x.set(key, owners)
}

// ownedBy finds entries by owner. It is called with mu held.
func (t *table) ownedBy(owner types.UID) []keyed {
	if t.owners == nil {
		t.owners = &ownerIndex{newKeyIndex[types.UID]()}
		for key, e := range t.entries {
			t.owners.update(key, e)
		}
		t.indexes = append(t.indexes, t.owners)
	}
	return t.pick(t.owners.at[owner])
}

// keyIndex maps values to the keys of objects, and back.
type keyIndex[K comparable] struct {
	at map[K]map[Key]struct{}
	of map[Key][]K
}

func newKeyIndex[K comparable]() keyIndex[K] {
	return keyIndex[K]{make(map[K]map[Key]struct{}), make(map[Key][]K)}
}

func (x *keyIndex[K]) set(key Key, values []K) {
	if slices.Equal(x.of[key], values) {
		return
	}
	for _, v := range x.of[key] {
		if delete(x.at[v], key); len(x.at[v]) == 0 {
			delete(x.at, v)
		}
	}
	if len(values) == 0 {
		delete(x.of, key)
		return
	}
	x.of[key] = values
	for _, v := range values {
		if x.at[v] == nil {
			x.at[v] = make(map[Key]struct{})
		}
		x.at[v][key] = struct{}{}
	}
}
