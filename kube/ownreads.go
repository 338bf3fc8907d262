package kube

import (
	"context"
	"maps"
	"slices"
	"time"
)

// get returns an object's entry and the key that it has, or live if the server must
// be asked for what is called key then.
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
	if w.answer != nil {
		return w.answer.entry, at, w, false
	}
	if w.hidden || hides(gone, e) {
		e = nil
	}
	return e, at, w, waiting && !w.hidden
}

// settle waits, as long as a read does, until the writes that were made before and
// that may matter are seen, and returns their number.
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

// matters reports that an object that was written may be one of those that are asked
// for, by the metadata that the write was answered with. A deletion changes nothing
// that is asked for.
func (t *table) matters(key Key, w ownWrite, may func(*entry) bool) bool {
	e := w.meta
	if w.deleting {
		e = t.entry(key)
	}
	return e == nil || may(e)
}

// await waits until ok, called with the lock of the own writes held, is true, or
// ownWait has passed.
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

// snapshot returns what pick finds, without the objects of the first so many writes
// that are not seen yet. It returns those of them that may matter apart: what the
// server has answered about them, and the keys that it is to be asked for.
func (t *table) snapshot(
	pick func() []keyed, made uint64, may func(*entry) bool,
) (found, answered []keyed, unseen []Key) {
	without := make(map[Key]struct{})
	t.own.mu.Lock()
	t.own.reading++
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
		without[key] = struct{}{}
	}
	t.own.mu.Unlock()
	t.mu.Lock() // owner indexes are built at their first use
	found = pick()
	t.mu.Unlock()
	t.own.mu.Lock()
	gone := t.own.gone
	switch {
	case len(gone) == 0:
	case len(found) < len(gone):
		found = slices.DeleteFunc(found, func(k keyed) bool { return hides(gone[k.key], k.entry) })
		gone = nil
	default:
		gone = maps.Clone(gone)
	}
	t.own.endRead()
	t.own.mu.Unlock()
	if len(without) > 0 || len(gone) > 0 {
		found = slices.DeleteFunc(found, func(k keyed) bool {
			_, leave := without[k.key]
			return leave || hides(gone[k.key], k.entry)
		})
	}
	return found, answered, unseen
}
