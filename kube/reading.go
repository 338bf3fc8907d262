package kube

import (
	"errors"
	"slices"
	"sync/atomic"
)

// A reading decodes an entry at most once, for the functions of all indexes. After them, one loop
// over changes may take the object over.
type reading struct {
	entry *entry
	begun bool
	// object is nil if decoding was broken off.
	object object
	err    error
}

// errBrokenOff is the error of an entry for which the code by which its type decodes itself
// panicked or ended its goroutine.
var errBrokenOff = errors.New("decoding was broken off")

// decode returns the object, which is decoded as a handle says that has the kind and the type of the
// store. It belongs to all who call decode, so they must not change it.
func (r *reading) decode(of *handle) (object, error) {
	if !r.begun {
		r.begun, r.err = true, errBrokenOff
		o := of.newObject()
		r.err = r.entry.Decode(of.codec, o)
		r.object = o
	}
	return r.object, r.err
}

// A loop takes over a decoded object only if it is soon enough: at most so many objects wait for
// loops, and entries of at most so many bytes.
const (
	decodedKept      = 64
	decodedKeptBytes = 1 << 20
)

// decodedObjects holds decoded objects for loops over changes, the oldest first.
type decodedObjects struct {
	list  []decodedObject
	bytes int // of the entries
}

type decodedObject struct {
	entry  *entry
	object object
	err    error
	number uint64 // of the first snapshot that may have the entry
}

// add adds the object of a reading. It reports whether there is room for more.
func (d *decodedObjects) add(r *reading) bool {
	if r.object != nil && d.bytes+r.entry.Size() <= decodedKeptBytes && len(d.list) < decodedKept {
		d.list = append(d.list, decodedObject{entry: r.entry, object: r.object, err: r.err})
		d.bytes += r.entry.Size()
	}
	return len(d.list) < decodedKept
}

// take removes the object of an entry.
func (d *decodedObjects) take(e *entry) (o decodedObject, ok bool) {
	for i := range d.list {
		if o := d.list[i]; o.entry == e {
			d.cut(i, i+1)
			return o, true
		}
	}
	return o, false
}

// join adds objects that were decoded for a snapshot. They replace older ones if there is no room.
func (d *decodedObjects) join(more decodedObjects, number uint64) {
	old := 0
	for n, bytes := len(d.list), d.bytes; old < len(d.list); old++ {
		if n+len(more.list) <= decodedKept && bytes+more.bytes <= decodedKeptBytes {
			break
		}
		n, bytes = n-1, bytes-d.list[old].entry.Size()
	}
	d.cut(0, old)
	for _, o := range more.list {
		o.number = number
		d.list = append(d.list, o)
	}
	d.bytes += more.bytes
}

// forget removes the objects of all snapshots up to a number.
func (d *decodedObjects) forget(number uint64) {
	n := 0
	for n < len(d.list) && d.list[n].number <= number {
		n++
	}
	d.cut(0, n)
}

func (d *decodedObjects) cut(from, to int) {
	for _, o := range d.list[from:to] {
		d.bytes -= o.entry.Size()
	}
	if d.list = slices.Delete(d.list, from, to); len(d.list) == 0 && cap(d.list) > 8 {
		d.list = nil
	}
}

// origin tells where changes come from.
type origin struct {
	*handle
	// followers hold the decoded objects of the store. Nil: the change was made without a store.
	followers *followers
	// decodes: the loop has decoded a change since it last reached the end of a snapshot.
	decodes atomic.Bool
}

// decode returns the object of an entry. The caller owns it.
func (o *origin) decode(e *entry) (object, error) {
	if o.followers != nil {
		o.decodes.Store(true)
		if is, ok := o.followers.take(e); ok {
			return is.object, is.err
		}
	}
	is := o.newObject()
	return is, e.Decode(o.codec, is)
}
