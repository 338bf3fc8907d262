package kube

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// deletion is an object that this process has deleted. Reads leave it out even while the
// watch still shows it.
type deletion struct {
	uid types.UID
	at  time.Time
}

// goneKept is how long a deletion is remembered at most if the watch does not show it.
// The watch may have shown it before the answer came, or may never have shown the object.
const goneKept = 10 * time.Minute

// deleted hides an object from reads, even while the watch still shows it.
func (t *table) deleted(key Key, uid types.UID) {
	e := t.hideDeleted(key, uid)
	switch {
	case e != nil && (uid == "" || e.Is(uid)):
		// The record of its Ensure is forgotten when the content loses the object.
	case uid == "":
		t.ensured.forget(partsOf(key)...)
	default:
		t.ensured.gone(key, uid)
	}
}

// hideDeleted is the part of deleted that concerns reads. It returns the entry that is
// left.
func (t *table) hideDeleted(key Key, uid types.UID) *entry {
	t.own.mu.Lock()
	defer t.own.mu.Unlock()
	e := t.entry(key)
	if uid == "" && e != nil {
		uid = e.UID()
	}
	if was := t.own.pending[key]; was.uid == uid || was.unknown || uid == "" {
		t.own.drop(key)
	}
	t.own.hide(key, uid)
	return e
}

// hide makes reads leave out an object. The caller holds the lock.
func (w *ownWrites) hide(key Key, uid types.UID) {
	if uid != "" && !w.isGone(key, uid) {
		w.gone[key] = append(slices.Clip(w.gone[key]), deletion{uid, time.Now()})
	}
}

// unhide forgets the deletions of a key that are over. The caller holds the lock.
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

// removed reports that an entry is of an object that this process has deleted.
func (w *ownWrites) removed(key Key, e *entry) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return hides(w.gone[key], e)
}

// hides reports that an entry is of one of some deleted objects.
func hides(gone []deletion, e *entry) bool {
	return e != nil && slices.ContainsFunc(gone, func(d deletion) bool { return e.Is(d.uid) })
}
