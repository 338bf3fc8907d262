package kube

import (
	"context"
	"slices"

	"github.com/pintle-go/pintle/kube/internal/hamt"
	"github.com/pintle-go/pintle/kube/internal/wire"
)

// entry is an object as a store keeps it: encoded, and never changed.
type entry = wire.Entry

// keyed is an entry with its key.
type keyed struct {
	key   Key
	entry *entry
}

// entries holds the objects of a snapshot.
type entries = hamt.Map[Key, *entry]

// A snapshot is the content of a table at one moment. It is never changed: readers take
// no lock, and two snapshots share their common parts.
type snapshot struct {
	entries entries
	size    int64 // of the data of all entries
	indexes []builtIndex
	// synced: the snapshot includes the first sync of all namespaces.
	synced bool
	// number counts the snapshots of a table.
	number uint64
}

// builtIndex is an index with its content for one snapshot.
type builtIndex struct {
	by    indexer
	found indexed
}

func (s *snapshot) entry(key Key) *entry {
	e, _ := s.entries.Get(key)
	return e
}

// index returns the content of an index, or nil if the snapshot does not have the index.
func (s *snapshot) index(by indexer) indexed {
	for i := range s.indexes {
		if s.indexes[i].by == by {
			return s.indexes[i].found
		}
	}
	return nil
}

// A draft is the next snapshot in the making. It belongs to one goroutine. That goroutine
// holds no lock while it works on the draft and while it calls the functions of indexes.
type draft struct {
	base *snapshot // next is made from base
	next *snapshot
	edit *hamt.Edit
	// removed holds the last states of the objects of base that are not in next.
	removed []keyed
	// vanished holds those removed objects that were shown to loops as vanished.
	vanished []keyed
}

func (s *snapshot) draft() *draft {
	next := *s
	next.number++
	next.indexes = slices.Clone(s.indexes)
	return &draft{base: s, next: &next, edit: new(hamt.Edit)}
}

// set replaces the entry of a key by e. If e is nil, it removes the entry.
func (d *draft) set(key Key, e *entry) {
	old := d.next.entry(key)
	if old == e {
		return
	}
	if old != nil && (e == nil || !e.Is(old.UID())) {
		d.removed = append(d.removed, keyed{key, old})
	}
	d.put(key, old, e)
	for i := range d.next.indexes {
		x := &d.next.indexes[i]
		x.found = x.found.with(d.edit, key, x.by.values(key, e))
	}
}

// remove removes an object whose last state is known.
func (d *draft) remove(key Key, last *entry) {
	d.set(key, nil)
	d.removed[len(d.removed)-1].entry = last
}

// put changes the entries and not the indexes.
func (d *draft) put(key Key, old, e *entry) {
	if old != nil {
		d.next.size -= int64(old.Size())
	}
	if e == nil {
		d.next.entries = d.next.entries.Without(d.edit, key)
		return
	}
	d.next.size += int64(e.Size())
	d.next.entries = d.next.entries.With(d.edit, key, e)
}

// fill puts entries into a draft that has none. The draft then owns them.
func (d *draft) fill(with entries) {
	d.next.entries = with
	for _, e := range with.All() {
		d.next.size += int64(e.Size())
	}
	for i := range d.next.indexes {
		x := &d.next.indexes[i]
		x.found, _ = x.by.collect(context.Background(), d.edit, with) // context.Background never ends
	}
}

// rebase takes the changes of base since the draft began into the draft. These changes
// are never about objects that the draft has changed: each object has one reflector.
func (d *draft) rebase(now *snapshot) {
	for c := range hamt.Diff(d.base.entries, now.entries) {
		e := deref(c.Is)
		d.put(c.Key, deref(c.Was), e)
		for i := range d.next.indexes {
			x := &d.next.indexes[i]
			var values any
			if found := now.index(x.by); found != nil {
				values = found.values(c.Key)
			} else {
				values = x.by.values(c.Key, e)
			}
			x.found = x.found.with(d.edit, c.Key, values)
		}
	}
	for _, x := range now.indexes {
		if d.next.index(x.by) != nil {
			continue
		}
		for c := range hamt.Diff(now.entries, d.next.entries) {
			x.found = x.found.with(d.edit, c.Key, x.by.values(c.Key, deref(c.Is)))
		}
		d.next.indexes = append(d.next.indexes, x)
	}
	d.next.synced = d.next.synced || now.synced
	d.base, d.next.number = now, now.number+1
}

// deref returns the entry of one side of a difference, or nil if there is none.
func deref(e **entry) *entry {
	if e == nil {
		return nil
	}
	return *e
}
