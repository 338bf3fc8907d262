package kube

import (
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/internal/versions"
	"github.com/pintle-go/pintle/kube/internal/wire"
)

// A store learns of a write by its watch, some time after the server answered the write.
// Until then the write is pending: the store alone does not answer for that object. Of an
// object that this process has deleted, only the uid counts, and reads do not wait for
// anything: the watch may still show the object, and reads leave it out. Resource
// versions are compared within one resource only.
//
// The own writes have a lock of their own. No lock of the table is held while this lock
// is taken, and this lock is held for some map accesses only. Two rules make that right.
//
// A reader looks at the own writes first and at the content second (peek, settle,
// snapshot). The writer of the table changes the content first and settles own writes
// second (event, listed, progress). So a reader that finds a write settled finds content
// that shows the write. A reader that finds a write pending waits or asks, which is right
// even if the content shows the write by then. A deletion is forgotten only after the
// content has lost the object, so a reader that finds no deletion finds no deleted
// object.
//
// An answer is noted with the lock held, from the look at the content to the end
// (answered, deleted, found). If the writer of the table settles earlier, the content
// shows the write. If the writer settles later, it settles the noted write.

// ownWrite is a write of this process that a table has not seen.
type ownWrite struct {
	uid types.UID
	rv  string
	// meta is the metadata in the answer to the write. It is nil if the answer had no
	// object.
	meta *entry
	// last is the latest metadata that the server has answered an unseen write of the
	// object with: this write or an earlier one.
	last *entry
	// unknown: the answer was lost, so only the server knows the object's state.
	unknown bool
	// deleting: the object was deleted together with others. It may be gone, or its
	// finalizers and its grace period may hold it. The answer to another write of the
	// object, which may be older or later, does not change that.
	deleting bool
	// hidden: since the write, the object does not match the table's selector. So reads
	// leave it out and need not wait.
	hidden bool
	// perhaps: it is unknown whether the object matches the table's field selector.
	perhaps bool
	// answer is the server's state of the object, asked for after the write. Reads need
	// neither wait nor ask again.
	answer *reply
	// question is a question that is on its way to the server.
	question *question
	// since is the number of the first write of the object that is not seen.
	since uint64
	seq   uint64
}

// ownWrites is a table's record of this process's writes.
type ownWrites struct {
	mu      sync.Mutex
	seq     uint64 // counts writes
	pending map[Key]ownWrite
	settled chan struct{} // closed, and replaced, when a write needs no wait any more
	// gone holds the objects that this process deleted. The watch has shown their
	// deletions already or will show them. The slices are never changed.
	gone map[Key][]deletion
	// shown holds the writes that the content has shown lately. Some subscribers may not
	// have taken them yet.
	shown map[Key]shown
	// forgot is the time of the last search for records to forget.
	forgot time.Time
	entry  func(Key) *entry // finds an entry in the table's content
	lanes  map[string]*lane // by the namespaces that have a watch of their own
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
	heard string // the watch has seen everything up to this resource version
	// order holds the pending writes in the order of their answers, which is nearly the
	// order of their resource versions.
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
	// ownFieldWait is the same for a store with a field selector, which may never see the
	// write.
	ownFieldWait = 100 * time.Millisecond
	// shownKept is how long a subscriber has to learn of an own write. If somebody else
	// deletes the object after that time, the write and the deletion merge like all
	// changes.
	shownKept = time.Minute
	// orderKept is how many writes that later writes of the same objects have replaced may
	// stand in the order of a lane.
	orderKept = 100
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

// seenBy reports that a table has seen the write. The table's entry for the object is e,
// and the table has seen everything up to rv.
func (w ownWrite) seenBy(e *entry, rv string) bool {
	switch {
	case w.unknown:
		return false
	case w.deleting && (e == nil || !e.Is(w.uid)):
		return true
	case w.deleting && (!e.Deleting() || w.rv == ""):
		return e.Deleting()
	}
	if !versions.Numeric(w.rv) {
		// Others may have the same version.
		return e != nil && e.Is(w.uid) && versions.Reached(e.ResourceVersion(), w.rv)
	}
	return e != nil && versions.Reached(e.ResourceVersion(), w.rv) || versions.Reached(rv, w.rv)
}

// outdated notes that the watch has shown an object, or may have. It drops the server's
// answer about the object if the answer may be older than that. The caller holds the lock.
func (w *ownWrites) outdated(key Key) {
	if write, ok := w.pending[key]; ok && write.answer != nil && !versions.Numeric(write.rv) {
		write.answer = nil
		w.pending[key] = write
	}
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
		t.ensured.gone(key, w.uid) // the content may never show the object, and so never lose it
	}
}

// answered notes a state of an object from the server's answer. It reports whether the
// table has seen that state before. The caller holds the lock of the own writes.
func (t *table) answered(key Key, w ownWrite) (seen bool) {
	was, pending := t.own.pending[key]
	if t.own.isGone(key, w.uid) || pending && versions.Older(w.rv, was.rv) {
		return false // answers may arrive in another order
	}
	w.deleting = w.deleting || pending && was.deleting && was.uid == w.uid
	e, heard := t.entry(key), t.own.lane(key.Namespace).heard
	if heard != "" && w.seenBy(e, heard) {
		t.own.drop(key)
		t.own.shown[key] = shown{w.uid, time.Now()}
		return true
	}
	if w.hidden && e == nil && !pending && !versions.Numeric(w.rv) {
		return false // the table may never see that the write happened
	}
	t.own.expect(key, w)
	return false
}

// settled tells the loops over changes about objects that do not exist although their own
// writes have settled: somebody else deleted the objects before the table could show
// them. The process knows of these objects, because it wrote them, and their absence is a
// change for their owners. The loops already know of the objects in removed, which the
// content has just lost.
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

// expect notes a pending write. The caller holds the lock.
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
	if l := w.lane(key.Namespace); versions.Numeric(write.rv) {
		l.order = append(l.order, laneWrite{key, write.rv, write.seq})
		if len(l.order) > 2*len(w.pending)+orderKept { // a watch that tells nothing settles nothing
			l.order = slices.DeleteFunc(l.order, func(x laneWrite) bool { return w.pending[x.key].seq != x.seq })
		}
	}
}

// unsure makes reads of an object ask the server.
func (t *table) unsure(key Key) {
	t.own.mu.Lock()
	defer t.own.mu.Unlock()
	t.own.expect(key, ownWrite{unknown: true})
}

// deleting makes reads wait until an object is gone or being deleted.
func (t *table) deleting(key Key, uid types.UID) {
	t.own.mu.Lock()
	defer t.own.mu.Unlock()
	w := ownWrite{uid: uid, deleting: true}
	if !w.seenBy(t.entry(key), "") {
		t.own.expect(key, w)
	}
}

// drop ends the wait for a write. The caller holds the lock.
func (w *ownWrites) drop(key Key) {
	if _, ok := w.pending[key]; ok {
		delete(w.pending, key)
		w.wake()
	}
}

// wake makes the waiting readers look again. The caller holds the lock.
func (w *ownWrites) wake() {
	close(w.settled)
	w.settled = make(chan struct{})
}

// made returns the number of writes that were noted so far.
func (w *ownWrites) made() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seq
}

// settle ends the wait for a write that the table has seen. The caller holds the lock.
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

// known returns the uid of the written object, or "" if the uid is unknown.
func (w ownWrite) known() types.UID {
	if w.uid == "" && w.last != nil {
		return w.last.UID()
	}
	return w.uid
}

// wrote reports whether this process wrote an object and some subscribers may not know it
// yet.
func (w *ownWrites) wrote(key Key, uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	write, pending := w.pending[key]
	return pending && (write.uid == uid || write.unknown) || uid != "" && w.shown[key].uid == uid
}

// event notes that the watch has shown an object, whose entry is e after that. It returns
// the writes that this settles.
func (w *ownWrites) event(namespace string, e *entry, deleted bool, rec *wire.Record) (settled []settledWrite) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.forgot) > goneKept { // a server may send no bookmarks
		w.forget(func(key Key, d deletion) bool { e := w.entry(key); return e == nil || !e.Is(d.uid) })
	}
	if write, ok := w.pending[Key(rec.Key)]; ok && write.seenBy(e, rec.ResourceVersion) {
		settled = w.settle(settled, Key(rec.Key))
	}
	w.outdated(Key(rec.Key))
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

// reached does the work of progress. The caller holds the lock.
func (w *ownWrites) reached(settled []settledWrite, namespace, rv string) []settledWrite {
	l := w.lanes[namespace]
	if rv == "" || versions.Older(rv, l.heard) {
		return settled
	}
	l.heard = rv
	for len(l.order) > 0 && versions.Reached(rv, l.order[0].rv) {
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

// forget drops writes that were remembered long enough, and deletions for which over
// returns true. The caller holds the lock.
func (w *ownWrites) forget(over func(Key, deletion) bool) {
	w.forgot = time.Now()
	maps.DeleteFunc(w.shown, func(_ Key, s shown) bool { return time.Since(s.at) > shownKept })
	for key := range w.gone {
		w.unhide(key, func(d deletion) bool { return time.Since(d.at) > goneKept && over(key, d) })
	}
}

// listed notes that a listing of a namespace is complete. The listing began at a time
// after a number of writes, so it has seen all of these. It returns the writes that this
// settles.
func (w *ownWrites) listed(namespace, rv string, seq uint64, began time.Time) (settled []settledWrite) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, write := range w.pending {
		switch {
		case namespace != "" && key.Namespace != namespace:
		case write.seq <= seq:
			settled = w.settle(settled, key)
		default:
			w.outdated(key)
		}
	}
	for key := range w.gone {
		if namespace == "" || key.Namespace == namespace {
			w.unhide(key, func(d deletion) bool { return d.at.Before(began) })
		}
	}
	w.forget(func(key Key, _ deletion) bool { return namespace == "" || key.Namespace == namespace })
	w.lanes[namespace].heard = "" // if the server's storage was restored, versions go back
	return w.reached(settled, namespace, rv)
}
