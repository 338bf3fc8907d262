package kube

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A store learns of a write by its watch, some time after the write was
// answered. Until then the write is pending: the store does not answer for that
// object by itself. Of an object that this process has deleted only the uid
// counts, and nothing needs to be waited for: whatever the watch still brings of
// it is not there. Resource versions are compared within one resource only.

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

// ownWrites is what a table knows of this process's writes, guarded by its mu.
type ownWrites struct {
	seq     uint64 // counts writes
	pending map[Key]ownWrite
	settled chan struct{} // closed, and made anew, when pending shrinks
	// gone are objects that were deleted, with the time of it: the watch has
	// told of it already or will.
	gone  map[types.UID]time.Time
	lanes map[string]*lane // by the namespaces that are watched on their own
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

func newOwnWrites(h handle) ownWrites {
	w := ownWrites{
		pending: make(map[Key]ownWrite), settled: make(chan struct{}),
		gone: make(map[types.UID]time.Time), lanes: make(map[string]*lane),
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

// reached reports that resource version a is b or later, where they compare.
func reached(a, b string) bool {
	if a == b {
		return a != ""
	}
	x, err := strconv.ParseUint(a, 10, 64)
	if err != nil {
		return false
	}
	y, err := strconv.ParseUint(b, 10, 64)
	return err == nil && x >= y
}

// wrote tells the tables of a write that was answered with o.
func (s *stores) wrote(kind Kind, o object) {
	key := KeyOf(o)
	if o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 && (o.GetDeletionGracePeriodSeconds() == nil || *o.GetDeletionGracePeriodSeconds() == 0) {
		// The removal of the last finalizer is answered with the object as it
		// was before, although it is gone.
		s.deleted(kind, key, o.GetUID())
		return
	}
	s.each(kind, key.Namespace, func(t *table) { t.wrote(key, o, true) })
}

// wrotePart tells the tables of a write that was answered with an object of
// another kind, such as a Scale, that has the identity and the version of the
// object written but not its labels.
func (s *stores) wrotePart(kind Kind, o object) {
	key := KeyOf(o)
	s.each(kind, key.Namespace, func(t *table) { t.wrote(key, o, false) })
}

// deleted tells the tables that an object is gone.
func (s *stores) deleted(kind Kind, key Key, uid types.UID) {
	s.each(kind, key.Namespace, func(t *table) { t.deleted(key, uid) })
}

// lost tells the tables of a write that failed, if it may have been executed
// all the same.
func (s *stores) lost(kind Kind, key Key, err error) {
	var status apierrors.APIStatus
	refused := errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError
	if refused || key.Name == "" || errors.Is(err, ErrUnreachable) || errors.Is(err, ErrNotServed) {
		return
	}
	s.unsure(kind, key)
}

// unsure tells the tables that only the server knows what became of an object.
func (s *stores) unsure(kind Kind, key Key) {
	s.each(kind, key.Namespace, func(t *table) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.own.expect(key, ownWrite{unknown: true})
	})
}

// wrote makes reads of an object wait until the write is seen.
func (t *table) wrote(key Key, o metav1.Object, whole bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answered(key, o, !whole || t.handle.selector.fits(o))
}

// answered notes a state of an object that the server has answered with, and
// whether the table's selector fits it.
func (t *table) answered(key Key, o metav1.Object, fits bool) {
	w := ownWrite{uid: o.GetUID(), rv: o.GetResourceVersion()}
	was, pending := t.own.pending[key]
	if _, gone := t.own.gone[w.uid]; gone || pending && olderThan(w.rv, was.rv) {
		return // answers overtake one another
	}
	e, heard := t.entries[key], t.own.lane(key.Namespace).heard
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

// numeric reports that a resource version compares with others.
func numeric(rv string) bool { return reached(rv, "0") }

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
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.entries[key]
	if uid == "" && e != nil {
		uid = e.uid()
	}
	if was := t.own.pending[key]; was.uid == uid || was.unknown || uid == "" {
		t.own.drop(key)
	}
	if uid != "" {
		t.own.gone[uid] = time.Now()
	}
}

// deleting makes reads wait until an object is gone or going.
func (s *stores) deleting(kind Kind, key Key, uid types.UID) {
	s.each(kind, key.Namespace, func(t *table) {
		t.mu.Lock()
		defer t.mu.Unlock()
		w := ownWrite{uid: uid, deleting: true}
		if e := t.entries[key]; !w.seenBy(e, "") {
			t.own.expect(key, w)
		}
	})
}

func (w *ownWrites) drop(key Key) {
	if _, ok := w.pending[key]; ok {
		delete(w.pending, key)
		close(w.settled)
		w.settled = make(chan struct{})
	}
}

// event notes that the watch has told of an object, whose entry is e now.
func (w *ownWrites) event(namespace string, e *entry, deleted bool, rec *record) {
	if write, ok := w.pending[rec.key]; ok && write.seenBy(e, rec.rv) {
		w.drop(rec.key)
	}
	if deleted {
		delete(w.gone, rec.uid)
	}
	w.progress(namespace, rec.rv)
}

// progress notes that a watch has seen everything up to rv.
func (w *ownWrites) progress(namespace, rv string) {
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

// forget drops deletions that were remembered long enough.
func (w *ownWrites) forget() {
	for uid, at := range w.gone {
		if time.Since(at) > goneKept {
			delete(w.gone, uid)
		}
	}
}

// listed notes that a listing of a namespace, which began at a time after a
// number of writes, is complete: it has seen all of them.
func (w *ownWrites) listed(namespace, rv string, seq uint64, began time.Time) {
	for key, write := range w.pending {
		if (namespace == "" || key.Namespace == namespace) && write.seq <= seq {
			w.drop(key)
		}
	}
	if namespace == "" {
		for uid, at := range w.gone {
			if at.Before(began) {
				delete(w.gone, uid)
			}
		}
	}
	w.forget()
	w.lanes[namespace].heard = "" // where the server's storage was restored, it goes back
	w.progress(namespace, rv)
}

// hides reports that an entry is of an object that this process has deleted.
func (w *ownWrites) hides(e *entry) bool {
	if e == nil || len(w.gone) == 0 {
		return false
	}
	_, gone := w.gone[e.uid()]
	return gone
}

// get returns an object's entry, or live if the server must be asked for what
// is called key then.
func (t *table) get(ctx context.Context, asked Key) (e *entry, key Key, live bool, err error) {
	e, key, w, waiting := t.peek(asked)
	if !waiting {
		return e, key, false, nil
	}
	if !w.unknown {
		if err := t.await(ctx, func() bool { _, p := t.own.pending[key]; return !p }); err != nil {
			return nil, key, false, err
		}
		if e, key, _, waiting = t.peek(asked); !waiting {
			return e, key, false, nil
		}
	}
	return nil, key, true, nil
}

// peek returns what there is of an object, under the key that it has: that of a
// cluster-scoped one has no namespace, whatever is asked for.
func (t *table) peek(key Key) (e *entry, at Key, w ownWrite, waiting bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	e = t.entries[key]
	if w, waiting = t.own.pending[key]; e == nil && !waiting {
		c := Key{Name: key.Name}
		if w, waiting = t.own.pending[c]; waiting || t.entries[c] != nil {
			key, e = c, t.entries[c]
		}
	}
	if w.hidden || t.own.hides(e) {
		e = nil
	}
	return e, key, w, waiting && !w.hidden
}

// settle waits, as long as a read does, until the writes that were made before
// are seen, and returns their number.
func (t *table) settle(ctx context.Context) (made uint64, err error) {
	t.mu.RLock()
	made = t.own.seq
	t.mu.RUnlock()
	return made, t.await(ctx, func() bool {
		for _, w := range t.own.pending {
			if !w.unknown && !w.hidden && w.since <= made {
				return false
			}
		}
		return true
	})
}

// await waits until ok, called with mu read-held, is true, or ownWriteWait has
// passed.
func (t *table) await(ctx context.Context, ok func() bool) error {
	var timeout *time.Timer
	for {
		t.mu.RLock()
		done, settled := ok(), t.own.settled
		t.mu.RUnlock()
		if done {
			return nil
		}
		if timeout == nil {
			timeout = time.NewTimer(ownWriteWait)
			defer timeout.Stop()
		}
		select {
		case <-settled:
		case <-timeout.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// snapshot returns what pick finds, without the objects of the first so many
// writes that are not seen yet, whose keys it returns apart.
func (t *table) snapshot(pick func() []keyed, made uint64) (found []keyed, unseen []Key) {
	t.mu.Lock() // owner indexes are built at their first use
	defer t.mu.Unlock()
	found = pick()
	if len(t.own.pending) == 0 && len(t.own.gone) == 0 {
		return found, nil
	}
	found = slices.DeleteFunc(found, func(k keyed) bool {
		w, waiting := t.own.pending[k.key]
		return t.own.hides(k.entry) || waiting && (w.hidden || w.since <= made)
	})
	for key, w := range t.own.pending {
		if !w.hidden && w.since <= made {
			unseen = append(unseen, key)
		}
	}
	return found, unseen
}

// found notes what the server answered for an object whose write was pending:
// nil if there is none, and whether the table's selector fits it. Before is its
// entry when the server was asked.
func (t *table) found(key Key, before *entry, o metav1.Object, fits bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.entries[key]
	switch {
	case o == nil && e != before && e != nil:
		return // the answer is of before what the watch has told since
	case o == nil:
		t.own.drop(key)
		if e != nil {
			t.own.gone[e.uid()] = time.Now()
		}
		return
	}
	if w := t.own.pending[key]; w.unknown || w.deleting {
		t.own.drop(key)
	}
	t.answered(key, o, fits)
}
