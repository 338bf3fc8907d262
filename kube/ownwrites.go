package kube

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// A store learns of a write by its watch, some time after the write was
// answered. Until then the write is pending: the store does not answer for that
// object by itself. Resource versions are compared within one resource only.

// ownWrite is a write of this process that a table has not seen.
type ownWrite struct {
	uid types.UID
	rv  string
	// deleted: the object is gone, at a resource version that nobody told.
	deleted bool
	// unknown: the answer was lost, so only the server can tell what is.
	unknown bool
}

// ownWriteWait is how long a read waits for the watch to see a write.
const ownWriteWait = time.Second

// seenBy reports that a table whose entry for the object is e, and which has
// seen everything up to rv, has seen the write.
func (w ownWrite) seenBy(e *entry, rv string) bool {
	switch {
	case w.unknown:
		return false
	case w.deleted:
		return e == nil || w.uid != "" && !e.is(w.uid)
	case e != nil && e.rv() == w.rv:
		return true
	case e != nil && reached(e.rv(), w.rv):
		return true
	}
	return reached(rv, w.rv)
}

// reached reports that resource version a is b or later, where they compare.
func reached(a, b string) bool {
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
	w := ownWrite{uid: o.GetUID(), rv: o.GetResourceVersion()}
	if o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 && (o.GetDeletionGracePeriodSeconds() == nil || *o.GetDeletionGracePeriodSeconds() == 0) {
		// The removal of the last finalizer is answered with the object as it
		// was before, although it is gone.
		w = ownWrite{uid: w.uid, deleted: true}
	}
	s.each(kind, key.Namespace, func(t *table) { t.expect(key, w, o) })
}

// deleted tells the tables that an object is gone.
func (s *stores) deleted(kind Kind, key Key, uid types.UID) {
	s.each(kind, key.Namespace, func(t *table) { t.expect(key, ownWrite{uid: uid, deleted: true}, nil) })
}

// lost tells the tables of a write that failed, if it may have been executed
// all the same.
func (s *stores) lost(kind Kind, key Key, err error) {
	var status apierrors.APIStatus
	refused := errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError
	if refused || key.Name == "" || errors.Is(err, ErrUnreachable) || errors.Is(err, ErrNotServed) {
		return
	}
	s.each(kind, key.Namespace, func(t *table) { t.expect(key, ownWrite{unknown: true}, nil) })
}

// expect makes reads of an object wait until the write is seen.
func (t *table) expect(key Key, w ownWrite, o object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.entries[key]
	if sel := t.handle.selector.labels; e == nil && o != nil && sel != nil && !sel.Matches(labels.Set(o.GetLabels())) {
		return // it was not in this table and is not to be
	}
	if t.unsynced == 0 && w.seenBy(e, "") {
		delete(t.pending, key)
		return
	}
	t.pending[key] = w
}

// settlePending drops the pending writes in a namespace that have been seen. It
// is called with mu held.
func (t *table) settlePending(namespace, rv string) {
	dropped := false
	for key, w := range t.pending {
		if namespace != "" && key.Namespace != namespace {
			continue
		}
		if w.seenBy(t.entries[key], rv) {
			delete(t.pending, key)
			dropped = true
		}
	}
	if dropped {
		close(t.settled)
		t.settled = make(chan struct{})
	}
}

// get returns an object's entry, or live if the server must be asked.
func (t *table) get(ctx context.Context, key Key) (e *entry, live bool, err error) {
	e, w, waiting := t.peek(key)
	if !waiting {
		return e, false, nil
	}
	if !w.unknown {
		if err := t.await(ctx, func() bool { _, p := t.pending[key]; return !p }); err != nil {
			return nil, false, err
		}
		if e, _, waiting = t.peek(key); !waiting {
			return e, false, nil
		}
	}
	return nil, true, nil
}

func (t *table) peek(key Key) (*entry, ownWrite, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	w, waiting := t.pending[key]
	return t.lookup(key), w, waiting
}

// settle waits, as long as a read does, until no write is pending whose outcome
// the watch can tell.
func (t *table) settle(ctx context.Context) error {
	return t.await(ctx, func() bool {
		for _, w := range t.pending {
			if !w.unknown {
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
		done, settled := ok(), t.settled
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

// snapshot returns what pick finds, without the objects of writes that are not
// seen yet, whose keys it returns apart.
func (t *table) snapshot(pick func() []keyed) (found []keyed, unseen []Key) {
	t.mu.Lock() // owner indexes are built at their first use
	defer t.mu.Unlock()
	found = pick()
	if len(t.pending) == 0 {
		return found, nil
	}
	kept := found[:0]
	for _, k := range found {
		if _, waiting := t.pending[k.key]; !waiting {
			kept = append(kept, k)
		}
	}
	for key := range t.pending {
		unseen = append(unseen, key)
	}
	return kept, unseen
}

// seen notes what the server answered for an object whose write was pending:
// nil if there is none.
func (t *table) seen(key Key, o metav1.Object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.entries[key]
	var w ownWrite
	if o != nil {
		w = ownWrite{uid: o.GetUID(), rv: o.GetResourceVersion()}
	} else {
		w.deleted = true
		if e != nil {
			w.uid = e.uid()
		}
	}
	if w.seenBy(e, "") {
		delete(t.pending, key)
	} else {
		t.pending[key] = w
	}
}
