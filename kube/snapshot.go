package kube

import (
	"context"
	"slices"

	"github.com/pintle-go/pintle/kube/internal/hamt"
	"github.com/pintle-go/pintle/kube/internal/own"
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
	// number counts the contents of a table. Snapshots that differ only in own have one number.
	number uint64
	// own is what the table knows besides its watch.
	own own.State[Key]
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

// object returns the state of an object as package own sees it.
func (s *snapshot) object(key Key) own.Object { return objectOf(s.entry(key)) }

func objectOf(e *entry) own.Object {
	if e == nil {
		return own.Object{}
	}
	return own.Object{Exists: true, UID: e.UID(), Version: e.ResourceVersion(), Deleting: e.Deleting()}
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

// A draft is the next snapshot in the making. It belongs to the one writer of a table.
type draft struct {
	next *snapshot
	edit *hamt.Edit
	// ends are the objects that the content loses, and those that ended before it had them.
	ends []end
	// changed: the content differs from the one before, and not only in own.
	changed bool
	// known are the index keys of entries. A draft that is made under a lock has no others. If it
	// needs one, it is missing.
	known           *indexKeys
	locked, missing bool
}

// end is the end of an object.
type end struct {
	keyed      // its last state
	own   bool // this process wrote it, so that each loop over changes is shown its end
}

func (s *snapshot) draft(known *indexKeys) *draft {
	next := *s
	next.indexes = slices.Clone(s.indexes)
	return &draft{next: &next, edit: new(hamt.Edit), known: known}
}

// obey does what a verdict says about a key. The content takes the entry e, or loses its object,
// whose last state is e, if e is known.
func (d *draft) obey(key Key, v own.Verdict, e *entry) {
	if was := d.next.entry(key); v.OwnWas && was != nil {
		was.SetOwn()
	}
	switch {
	case v.Take:
		d.set(key, e)
		if v.OwnIs {
			e.SetOwn()
		}
	case v.Drop:
		d.remove(key, e)
	}
	for _, x := range v.Ended {
		if x.Last != nil {
			d.ends, d.changed = append(d.ends, end{keyed{key, x.Last}, true}), true
		}
	}
}

// set replaces the entry of a key by e. If e is nil, it removes the entry.
func (d *draft) set(key Key, e *entry) {
	old := d.next.entry(key)
	switch {
	case old == e:
		return
	case old == nil:
	case e == nil || !e.Is(old.UID()):
		d.ends = append(d.ends, end{keyed{key, old}, old.Own()})
	case old.Own():
		e.SetOwn()
	}
	d.changed = true
	d.put(key, old, e)
	for i := range d.next.indexes {
		x := &d.next.indexes[i]
		x.found = x.found.with(d.edit, key, d.keysOf(x.by, key, e))
	}
}

// remove removes an object. If last is a state of that object, it is the last one.
func (d *draft) remove(key Key, last *entry) {
	old := d.next.entry(key)
	d.set(key, nil)
	if last != nil && old != nil && last.Is(old.UID()) {
		d.ends[len(d.ends)-1].entry = last
	}
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
	if d.locked && d.next.runsProgram() {
		d.missing = true
		return
	}
	d.next.entries, d.changed = with, true
	for _, e := range with.All() {
		d.next.size += int64(e.Size())
	}
	collectors := make([]collector, len(d.next.indexes))
	for i, x := range d.next.indexes {
		collectors[i] = x.by.collector()
	}
	if len(collectors) == 0 {
		return
	}
	d.known.decoded, _ = collect(context.Background(), with, collectors) // context.Background never ends
	for i, c := range collectors {
		d.next.indexes[i].found = c.indexed(d.edit)
	}
}

// addIndex adds an index, which was made of the entries of an earlier snapshot.
func (d *draft) addIndex(by indexer, found indexed, of entries) {
	for c := range hamt.Diff(of, d.next.entries) {
		found = found.with(d.edit, c.Key, d.keysOf(by, c.Key, deref(c.Is)))
	}
	d.next.indexes, d.changed = append(d.next.indexes, builtIndex{by, found}), true
}

// progress notes that the content has everything of a lane up to a version.
func (d *draft) progress(lane int, rv string) {
	d.next.own = d.next.own.Progress(lane, rv, d.next.object, d.rule)
}

// rule obeys a verdict that takes nothing.
func (d *draft) rule(key Key, v own.Verdict) { d.obey(key, v, nil) }

// deref returns the entry of one side of a difference, or nil if there is none.
func deref(e **entry) *entry {
	if e == nil {
		return nil
	}
	return *e
}
