package kube

import (
	"context"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
func (t *table) peek(asked Key) (e *entry, at Key, w ownWrite, waiting bool) {
	bare := Key{Name: asked.Name}
	t.own.mu.Lock()
	w, waiting = t.own.pending[asked]
	gone := t.own.gone[asked]
	bareWrite, bareWaiting := t.own.pending[bare]
	bareGone := t.own.gone[bare]
	t.own.mu.Unlock()
	at, e = asked, t.entry(asked)
	if e == nil && !waiting {
		if b := t.entry(bare); b != nil || bareWaiting {
			at, e, w, waiting, gone = bare, b, bareWrite, bareWaiting, bareGone
		}
	}
	if w.hidden || hides(gone, e) {
		e = nil
	}
	return e, at, w, waiting && !w.hidden
}

// settle waits, as long as a read does, until the writes that were made before
// are seen, and returns their number.
func (t *table) settle(ctx context.Context) (made uint64, err error) {
	made = t.own.made()
	return made, t.await(ctx, func() bool {
		for _, w := range t.own.pending {
			if !w.unknown && !w.hidden && w.since <= made {
				return false
			}
		}
		return true
	})
}

// await waits until ok, called with the lock of the own writes held, is true, or
// ownWriteWait has passed.
func (t *table) await(ctx context.Context, ok func() bool) error {
	var timeout *time.Timer
	for {
		t.own.mu.Lock()
		done, settled := ok(), t.own.settled
		t.own.mu.Unlock()
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

// unseen returns the keys of the objects of the first so many writes that are not
// seen yet, and tells of which entries a read does without. It comes before the look
// at the content: what is settled by then is in there.
func (t *table) unseen(made uint64) (keys []Key, without func(Key, *entry) bool) {
	t.own.mu.Lock()
	defer t.own.mu.Unlock()
	if len(t.own.pending) == 0 && len(t.own.gone) == 0 {
		return nil, func(Key, *entry) bool { return false }
	}
	gone, left := maps.Clone(t.own.gone), make(map[Key]struct{})
	for key, w := range t.own.pending {
		if w.hidden || w.since <= made {
			left[key] = struct{}{}
		}
		if !w.hidden && w.since <= made {
			keys = append(keys, key)
		}
	}
	return keys, func(key Key, e *entry) bool {
		_, waiting := left[key]
		return waiting || hides(gone[key], e)
	}
}

// found notes what the server answered for an object whose write was pending:
// nil if there is none, and whether the table's selector fits it. Before is its
// entry when the server was asked.
func (t *table) found(key Key, before *entry, o metav1.Object, fits bool) {
	t.own.mu.Lock()
	defer t.own.mu.Unlock()
	e := t.entry(key)
	switch {
	case o == nil && e != before && e != nil:
		return // the answer is of before what the watch has told since
	case o == nil:
		t.own.drop(key)
		if e != nil {
			t.own.hide(key, e.uid())
		}
		return
	}
	if w := t.own.pending[key]; w.unknown || w.deleting {
		t.own.drop(key)
	}
	t.answered(key, ownWrite{uid: o.GetUID(), rv: o.GetResourceVersion(), meta: metaEntry(o), hidden: !fits})
}
