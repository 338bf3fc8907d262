package kube

import (
	"context"
	"maps"
	"time"
)

// get returns an object's entry and the key under which the table has the object. It
// returns live if the caller must ask the server for the object with that key.
func (t *table) get(ctx context.Context, asked Key) (e *entry, key Key, live bool, err error) {
	e, key, w, waiting := t.peek(asked)
	if !waiting {
		return e, key, false, nil
	}
	if !w.unknown {
		if err := t.await(ctx, func() bool { w, p := t.own.pending[key]; return !p || w.answer != nil }); err != nil {
			return nil, key, false, err
		}
		if e, key, _, waiting = t.peek(asked); !waiting {
			return e, key, false, nil
		}
	}
	return nil, key, true, nil
}

// peek returns the state of an object, and the key under which the table has it. The key
// of a cluster-scoped object has no namespace, even if the caller asks for one.
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
	if w.answer != nil {
		return w.answer.entry, at, w, false
	}
	if w.hidden || hides(gone, e) {
		e = nil
	}
	return e, at, w, waiting && !w.hidden
}

// settle waits until the earlier writes that may matter are seen, as long as a read waits
// for them. It returns the number of the earlier writes.
func (t *table) settle(ctx context.Context, may func(*entry) bool) (made uint64, err error) {
	made = t.own.made()
	return made, t.await(ctx, func() bool {
		for key, w := range t.own.pending {
			if !w.unknown && !w.hidden && w.answer == nil && w.since <= made && t.matters(key, w, may) {
				return false
			}
		}
		return true
	})
}

// matters reports that a written object may be one of those that are asked for. It judges
// by the metadata in the answer to the write. A deletion changes nothing that is asked
// for.
func (t *table) matters(key Key, w ownWrite, may func(*entry) bool) bool {
	e := w.meta
	if w.deleting {
		e = t.entry(key)
	}
	return e == nil || may(e)
}

// await waits until ok returns true or ownWait has passed. It calls ok with the lock of
// the own writes held.
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
			timeout = time.NewTimer(t.ownWait())
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

// ownWait is how long a read waits for the watch to see a write.
func (t *table) ownWait() time.Duration {
	if t.handle.selector.field != "" {
		return ownFieldWait
	}
	return ownWriteWait
}

// unseen tells of the first made writes, if they are not seen yet and may matter. It
// returns the server's answers about them, and the keys that the server is to be asked
// for. It also tells which entries a read leaves out. It runs before the look at the
// content, which has all writes that are settled by then.
func (t *table) unseen(made uint64, may func(*entry) bool) (
	answered []keyed, unseen []Key, without func(Key, *entry) bool,
) {
	t.own.mu.Lock()
	defer t.own.mu.Unlock()
	if len(t.own.pending) == 0 && len(t.own.gone) == 0 {
		return nil, nil, func(Key, *entry) bool { return false }
	}
	gone, left := maps.Clone(t.own.gone), make(map[Key]struct{})
	for key, w := range t.own.pending {
		switch {
		case w.answer != nil:
			if w.answer.entry != nil {
				answered = append(answered, keyed{key, w.answer.entry})
			}
		case w.hidden:
		case w.since > made:
			continue
		case t.matters(key, w, may):
			unseen = append(unseen, key)
		}
		left[key] = struct{}{}
	}
	return answered, unseen, func(key Key, e *entry) bool {
		_, waiting := left[key]
		return waiting || hides(gone[key], e)
	}
}
