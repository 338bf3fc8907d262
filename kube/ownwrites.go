package kube

import (
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A store learns of a write by its watch, some time after the write was
// answered. Until then the write is pending: the store does not answer for that
// object by itself. Of an object that this process has deleted only the uid
// counts, and nothing needs to be waited for: the watch may still bring the
// object, and reads leave it out. Resource versions are compared within one
// resource only.
//
// The own writes have a lock of their own. No lock of the table is held while it
// is taken, and it is held for some map accesses only. Two rules make that right.
//
// A reader looks at the own writes first and at the content second (peek, settle,
// snapshot). The writer of the table changes the content first and settles own
// writes second (event, listed, progress). So a reader that finds a write settled
// finds content that shows the write. A reader that finds a write pending waits or
// asks, which is right even if the content shows the write by then. A deletion is
// forgotten only after the content has lost the object, so a reader that finds no
// deletion finds no deleted object.
//
// An answer is noted with the lock held from the look at the content to the end
// (answered, deleted, found). If the writer of the table settles before that, the
// content that is looked at shows the write. If it settles after that, it settles
// the noted write.

// ownWrite is a write of this process that a table has not seen.
type ownWrite struct {
	uid types.UID
	rv  string
	// unknown: the answer was lost, so only the server can tell what is.
	unknown bool
	// deleting: the object was deleted with others, and may be gone or be held
	// by finalizers and its grace period.
	deleting bool
	// hidden: the object does not match the table's selector since, so reads
	// do without it and need not wait.
	hidden bool
	// since is the number of the first write of the object that is not seen.
	since uint64
	seq   uint64
}

// ownWrites is what a table knows of this process's writes.
type ownWrites struct {
	mu      sync.Mutex
	seq     uint64 // counts writes
	pending map[Key]ownWrite
	settled chan struct{} // closed, and made anew, when pending shrinks
	// gone are objects that were deleted: the watch has told of it already or
	// will. The slices are never changed.
	gone  map[Key][]deletion
	lanes map[string]*lane // by the namespaces that are watched on their own
}

// deletion is an own deletion of an object.
type deletion struct {
	uid types.UID
	at  time.Time
}

// lane is one watch's view of the writes.
type lane struct {
	heard string // everything up to this resource version has been seen
	// order are the pending writes in the order of their answers, which is
	// nearly that of their resource versions.
	order []laneWrite
}

type laneWrite struct {
	key Key
	rv  string
	seq uint64
}

const (
	// ownWriteWait is how long a read waits for the watch to see a write.
	ownWriteWait = time.Second
	// goneKept bounds how long a deletion is remembered that the watch does
	// not tell of: it has done so before the deletion was answered, or it has
	// never shown the object.
	goneKept = 10 * time.Minute
)

func newOwnWrites(h handle) *ownWrites {
	w := &ownWrites{
		pending: make(map[Key]ownWrite), settled: make(chan struct{}),
		gone: make(map[Key][]deletion), lanes: make(map[string]*lane),
	}
	for ns := range h.eachNamespace() {
		w.lanes[ns] = new(lane)
	}
	return w
}

// lane returns the watch that sees a namespace.
func (w *ownWrites) lane(namespace string) *lane {
	if l, ok := w.lanes[namespace]; ok {
		return l
	}
	return w.lanes[""]
}

// seenBy reports that a table whose entry for the object is e, and which has
// seen everything up to rv, has seen the write.
func (w ownWrite) seenBy(e *entry, rv string) bool {
	switch {
	case w.unknown:
		return false
	case w.deleting:
		return e == nil || !e.is(w.uid) || e.metaField(fieldDeletionTimestamp) != nil
	}
	return e != nil && reached(e.rv(), w.rv) || reached(rv, w.rv)
}

// wrote makes reads of an object wait until the write is seen.
func (t *table) wrote(key Key, o metav1.Object, whole bool) {
	t.own.mu.Lock()
	defer t.own.mu.Unlock()
	t.answered(key, o, !whole || t.handle.selector.fits(o))
}

// answered notes a state of an object that the server has answered with, and
// whether the table's selector fits it. It is called with the lock of the own
// writes held.
func (t *table) answered(key Key, o metav1.Object, fits bool) {
	w := ownWrite{uid: o.GetUID(), rv: o.GetResourceVersion()}
	was, pending := t.own.pending[key]
	if t.own.isGone(key, w.uid) || pending && olderThan(w.rv, was.rv) {
		return // answers overtake one another
	}
	e, heard := t.entry(key), t.own.lane(key.Namespace).heard
	if heard != "" && w.seenBy(e, heard) {
		t.own.drop(key)
		return
	}
	if !fits {
		if w.hidden = true; e == nil && !pending && !numeric(w.rv) {
			return // it may never be seen that the write was
		}
	}
	t.own.expect(key, w)
}

// expect notes a pending write. The lock is held.
func (w *ownWrites) expect(key Key, write ownWrite) {
	w.seq++
	write.seq, write.since = w.seq, w.seq
	if was, ok := w.pending[key]; ok {
		write.since = was.since
	}
	w.pending[key] = write
	if l := w.lane(key.Namespace); numeric(write.rv) {
		l.order = append(l.order, laneWrite{key, write.rv, write.seq})
	}
}

// deleted hides an object from reads, whatever the watch still tells of it.
func (t *table) deleted(key Key, uid types.UID) {
	t.own.mu.Lock()
	defer t.own.mu.Unlock()
	if uid == "" {
		if e := t.entry(key); e != nil {
			uid = e.uid()
		}
	}
	if was := t.own.pending[key]; was.uid == uid || was.unknown || uid == "" {
		t.own.drop(key)
	}
	t.own.hide(key, uid)
}

// unsure makes reads of an object ask the server.
func (t *table) unsure(key Key) {
	t.own.mu.Lock()
	defer t.own.mu.Unlock()
	t.own.expect(key, ownWrite{unknown: true})
}

// deleting makes reads wait until an object is gone or going.
func (t *table) deleting(key Key, uid types.UID) {
	t.own.mu.Lock()
	defer t.own.mu.Unlock()
	w := ownWrite{uid: uid, deleting: true}
	if !w.seenBy(t.entry(key), "") {
		t.own.expect(key, w)
	}
}

// drop ends the wait for a write. The lock is held.
func (w *ownWrites) drop(key Key) {
	if _, ok := w.pending[key]; ok {
		delete(w.pending, key)
		close(w.settled)
		w.settled = make(chan struct{})
	}
}

// hide has reads leave out an object. The lock is held.
func (w *ownWrites) hide(key Key, uid types.UID) {
	if uid != "" && !w.isGone(key, uid) {
		w.gone[key] = append(slices.Clip(w.gone[key]), deletion{uid, time.Now()})
	}
}

// unhide forgets the deletions of a key that are over. The lock is held.
func (w *ownWrites) unhide(key Key, over func(deletion) bool) {
	left := slices.DeleteFunc(slices.Clone(w.gone[key]), over)
	if len(left) == 0 {
		delete(w.gone, key)
		return
	}
	w.gone[key] = left
}

func (w *ownWrites) isGone(key Key, uid types.UID) bool {
	return slices.ContainsFunc(w.gone[key], func(d deletion) bool { return d.uid == uid })
}

// made returns how many writes were noted so far.
func (w *ownWrites) made() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seq
}

// event notes that the watch has told of an object, whose entry is e now.
func (w *ownWrites) event(namespace string, e *entry, deleted bool, rec *record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if write, ok := w.pending[rec.key]; ok && write.seenBy(e, rec.rv) {
		w.drop(rec.key)
	}
	if deleted && w.isGone(rec.key, rec.uid) {
		w.unhide(rec.key, func(d deletion) bool { return d.uid == rec.uid })
	}
	w.reached(namespace, rec.rv)
}

// progress notes that a watch has seen everything up to rv.
func (w *ownWrites) progress(namespace, rv string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reached(namespace, rv)
	w.forget()
}

// reached is progress with the lock held.
func (w *ownWrites) reached(namespace, rv string) {
	l := w.lanes[namespace]
	if rv == "" || olderThan(rv, l.heard) {
		return
	}
	l.heard = rv
	for len(l.order) > 0 && reached(rv, l.order[0].rv) {
		if write, ok := w.pending[l.order[0].key]; ok && write.seq == l.order[0].seq {
			w.drop(l.order[0].key)
		}
		if l.order = l.order[1:]; len(l.order) == 0 {
			l.order = nil
		}
	}
}

// forget drops deletions that were remembered long enough. The lock is held.
func (w *ownWrites) forget() {
	for key := range w.gone {
		w.unhide(key, func(d deletion) bool { return time.Since(d.at) > goneKept })
	}
}

// listed notes that a listing of a namespace, which began at a time after a
// number of writes, is complete: it has seen all of them.
func (w *ownWrites) listed(namespace, rv string, seq uint64, began time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, write := range w.pending {
		if (namespace == "" || key.Namespace == namespace) && write.seq <= seq {
			w.drop(key)
		}
	}
	for key := range w.gone {
		if namespace == "" || key.Namespace == namespace {
			w.unhide(key, func(d deletion) bool { return d.at.Before(began) })
		}
	}
	w.forget()
	w.lanes[namespace].heard = "" // where the server's storage was restored, it goes back
	w.reached(namespace, rv)
}

// hides reports that an entry is of one of some deleted objects.
func hides(gone []deletion, e *entry) bool {
	return e != nil && slices.ContainsFunc(gone, func(d deletion) bool { return e.is(d.uid) })
}
