package kube

import (
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube/internal/wire"
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
	// meta is the metadata that the write was answered with, nil if it was not
	// answered with the object.
	meta *entry
	// last is the latest metadata that an unseen write of the object was answered
	// with: that of this write or of an earlier one.
	last *entry
	// unknown: the answer was lost, so only the server can tell what is.
	unknown bool
	// deleting: the object was deleted with others, and may be gone or be held
	// by finalizers and its grace period. The answer to another write of the object,
	// which may be older or later, does not change that.
	deleting bool
	// hidden: the object does not match the table's selector since, so reads
	// do without it and need not wait.
	hidden bool
	// perhaps: whether the object matches the table's field selector is not known.
	perhaps bool
	// answer is what the server had when it was asked about the object after the
	// write. Reads need neither wait nor ask again.
	answer *reply
	// question is on its way to the server.
	question *question
	// since is the number of the first write of the object that is not seen.
	since uint64
	seq   uint64
}

// ownWrites is what a table knows of this process's writes.
type ownWrites struct {
	mu      sync.Mutex
	seq     uint64 // counts writes
	pending map[Key]ownWrite
	settled chan struct{} // closed, and made anew, when a write needs no wait any more
	// gone are objects that were deleted: the watch has told of it already or
	// will. The slices are never changed.
	gone map[Key][]deletion
	// shown are writes that the content has shown lately. Some subscribers may not
	// have taken them yet.
	shown map[Key]shown
	// forgot is when it was last looked for what may be forgotten.
	forgot time.Time
	entry  func(Key) *entry // of the table's content
	lanes  map[string]*lane // by the namespaces that are watched on their own
}

// shown is an own write that the content has shown.
type shown struct {
	uid types.UID
	at  time.Time
}

// settledWrite is a write that is pending no longer.
type settledWrite struct {
	key  Key
	uid  types.UID
	meta *entry
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
	// ownFieldWait is the same for a store with a field selector, which may never
	// see the write.
	ownFieldWait = 100 * time.Millisecond
	// shownKept is how long a subscriber may take to be told of an own write before
	// its deletion by somebody else goes the way of all merged changes.
	shownKept = time.Minute
)

func newOwnWrites(h handle, entry func(Key) *entry) *ownWrites {
	w := &ownWrites{
		forgot: time.Now(), entry: entry,
		pending: make(map[Key]ownWrite), settled: make(chan struct{}),
		gone: make(map[Key][]deletion), shown: make(map[Key]shown), lanes: make(map[string]*lane),
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
	case w.deleting && (e == nil || !e.Is(w.uid)):
		return true
	case w.deleting && (!e.Deleting() || w.rv == ""):
		return e.Deleting()
	}
	return e != nil && reached(e.ResourceVersion(), w.rv) || reached(rv, w.rv)
}

// wrote makes reads of an object wait until the write is seen.
func (t *table) wrote(key Key, o metav1.Object, whole bool) {
	w := ownWrite{uid: o.GetUID(), rv: o.GetResourceVersion()}
	if whole {
		w.meta = wire.MetadataEntry(o)
		w.hidden = !t.handle.selector.fits(o) || t.handle.selector.excludes(o)
		w.perhaps = t.handle.selector.field != ""
	}
	t.own.mu.Lock()
	seen := t.answered(key, w)
	t.own.mu.Unlock()
	if seen && whole && !w.hidden && !w.perhaps {
		t.settled([]settledWrite{{key, w.uid, w.meta}}, nil)
	}
	if w.hidden && t.entry(key) == nil {
		t.ensured.gone(key, w.uid) // the content may never show it, and so never lose it
	}
}

// answered notes a state of an object that the server has answered with, and
// reports whether the table has seen it before. It is called with the lock of the
// own writes held.
func (t *table) answered(key Key, w ownWrite) (seen bool) {
	was, pending := t.own.pending[key]
	if t.own.isGone(key, w.uid) || pending && olderThan(w.rv, was.rv) {
		return false // answers overtake one another
	}
	w.deleting = w.deleting || pending && was.deleting && was.uid == w.uid
	e, heard := t.entry(key), t.own.lane(key.Namespace).heard
	if heard != "" && w.seenBy(e, heard) {
		t.own.drop(key)
		t.own.shown[key] = shown{w.uid, time.Now()}
		return true
	}
	if w.hidden && e == nil && !pending && !numeric(w.rv) {
		return false // it may never be seen that the write was
	}
	t.own.expect(key, w)
	return false
}

// settled tells the loops over changes of own writes that are not pending any more
// and whose objects are not there: somebody else has deleted them before the table
// could show them. The process knows of these objects, because it wrote them, and
// their absence is a change for their owners. The end of what was removed from the
// content just before is told already.
func (t *table) settled(writes []settledWrite, removed []keyed) {
	for _, w := range writes {
		e := t.entry(w.key)
		if e != nil && e.Is(w.uid) {
			continue
		}
		t.ensured.gone(w.key, w.uid)
		if w.meta == nil {
			continue
		}
		if !slices.ContainsFunc(removed, func(k keyed) bool { return k.key == w.key && k.entry.Is(w.uid) }) {
			t.vanished(w.key, w.meta)
		}
	}
}

// expect notes a pending write. The lock is held.
func (w *ownWrites) expect(key Key, write ownWrite) {
	w.seq++
	write.seq, write.since = w.seq, w.seq
	if write.meta != nil {
		write.last = write.meta
	}
	if was, ok := w.pending[key]; ok {
		write.since = was.since
		if write.last == nil && (write.unknown || was.uid == write.uid) {
			write.last = was.last
		}
	}
	w.pending[key] = write
	if l := w.lane(key.Namespace); numeric(write.rv) {
		l.order = append(l.order, laneWrite{key, write.rv, write.seq})
	}
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
		w.wake()
	}
}

// wake has the waiting readers look again. The lock is held.
func (w *ownWrites) wake() {
	close(w.settled)
	w.settled = make(chan struct{})
}

// made returns how many writes were noted so far.
func (w *ownWrites) made() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seq
}

// settle ends the wait for a write that the table has seen. The lock is held.
func (w *ownWrites) settle(settled []settledWrite, key Key) []settledWrite {
	write := w.pending[key]
	w.drop(key)
	uid := write.known()
	if uid == "" || write.hidden || write.deleting {
		return settled
	}
	w.shown[key] = shown{uid, time.Now()}
	if write.perhaps {
		return settled
	}
	return append(settled, settledWrite{key, uid, write.last})
}

// known returns the uid of the object that was written, as far as it is known.
func (w ownWrite) known() types.UID {
	if w.uid == "" && w.last != nil {
		return w.last.UID()
	}
	return w.uid
}

// wrote reports whether this process wrote an object that some subscribers may not
// have been told of.
func (w *ownWrites) wrote(key Key, uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	write, pending := w.pending[key]
	return pending && (write.uid == uid || write.unknown) || uid != "" && w.shown[key].uid == uid
}

// event notes that the watch has told of an object, whose entry is e now, and
// returns the writes that this settles.
func (w *ownWrites) event(namespace string, e *entry, deleted bool, rec *wire.Record) (settled []settledWrite) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.forgot) > goneKept { // a server may send no bookmarks
		w.forget(func(key Key, d deletion) bool { e := w.entry(key); return e == nil || !e.Is(d.uid) })
	}
	if write, ok := w.pending[Key(rec.Key)]; ok && write.seenBy(e, rec.ResourceVersion) {
		settled = w.settle(settled, Key(rec.Key))
	}
	if deleted && w.isGone(Key(rec.Key), rec.UID) {
		w.unhide(Key(rec.Key), func(d deletion) bool { return d.uid == rec.UID })
	}
	return w.reached(settled, namespace, rec.ResourceVersion)
}

// progress notes that a watch has seen everything up to rv, and returns the writes
// that this settles.
func (w *ownWrites) progress(namespace, rv string) []settledWrite {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget(func(key Key, _ deletion) bool { return namespace == "" || key.Namespace == namespace })
	return w.reached(nil, namespace, rv)
}

// reached is progress with the lock held.
func (w *ownWrites) reached(settled []settledWrite, namespace, rv string) []settledWrite {
	l := w.lanes[namespace]
	if rv == "" || olderThan(rv, l.heard) {
		return settled
	}
	l.heard = rv
	for len(l.order) > 0 && reached(rv, l.order[0].rv) {
		write, ok := w.pending[l.order[0].key]
		if ok && write.seq == l.order[0].seq && !write.deleting {
			settled = w.settle(settled, l.order[0].key)
		}
		if l.order = l.order[1:]; len(l.order) == 0 {
			l.order = nil
		}
	}
	return settled
}

// forget drops writes that were remembered long enough, and such deletions that are
// over. The lock is held.
func (w *ownWrites) forget(over func(Key, deletion) bool) {
	w.forgot = time.Now()
	maps.DeleteFunc(w.shown, func(_ Key, s shown) bool { return time.Since(s.at) > shownKept })
	for key := range w.gone {
		w.unhide(key, func(d deletion) bool { return time.Since(d.at) > goneKept && over(key, d) })
	}
}

// listed notes that a listing of a namespace, which began at a time after a
// number of writes, is complete: it has seen all of them. It returns the writes
// that this settles.
func (w *ownWrites) listed(namespace, rv string, seq uint64, began time.Time) (settled []settledWrite) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, write := range w.pending {
		if (namespace == "" || key.Namespace == namespace) && write.seq <= seq {
			settled = w.settle(settled, key)
		}
	}
	for key := range w.gone {
		if namespace == "" || key.Namespace == namespace {
			w.unhide(key, func(d deletion) bool { return d.at.Before(began) })
		}
	}
	w.forget(func(key Key, _ deletion) bool { return namespace == "" || key.Namespace == namespace })
	w.lanes[namespace].heard = "" // where the server's storage was restored, it goes back
	return w.reached(settled, namespace, rv)
}
