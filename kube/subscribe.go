package kube

import (
	"context"
	"iter"
	"sync"
)

// Changes yields the objects of the store as Added, then Synced, then every
// change. It ends when ctx does, the loop is left or the store stops.
//
// A slow loop holds up neither the store nor other loops: changes wait for it,
// one place for each object, where a later change takes the place of an earlier
// one. What was Added is Deleted at the end, however much was merged: with the
// object as it last was; a new object under an old name is a Deleted and an
// Added. Synced comes once. An object that does not decode is yielded with its
// error and its metadata.
func (s *Store[T]) Changes(ctx context.Context) iter.Seq2[Event[T], error] {
	return func(yield func(Event[T], error) bool) {
		if err := s.table.handle.err; err != nil {
			yield(Event[T]{Object: new(T)}, s.wrap("watch", Key{}, err))
			return
		}
		s.table.follow(ctx, func(c Change) bool {
			if c.Type == Synced {
				return yield(Event[T]{Synced, new(T)}, nil)
			}
			o, err := s.decode(c.is, c.Key)
			return yield(Event[T]{c.Type, o}, err)
		})
	}
}

// follow calls yield with the changes that [Store.Changes] promises, until it
// returns false.
func (t *table) follow(ctx context.Context, yield func(Change) bool) {
	sub := t.subscribe()
	defer t.unsubscribe(sub)
	stopped := false
	for {
		ch, ok := t.next(sub)
		switch {
		case !ok && stopped:
			return
		case !ok:
			select {
			case <-ctx.Done():
				return
			case <-t.done:
				stopped = true // what waits is still delivered
			case <-sub.wake:
			}
			continue
		case ctx.Err() != nil:
			return
		case ch.synced:
			if !yield(Change{Type: Synced, table: t}) {
				return
			}
			continue
		}
		old, now := ch.old, ch.now
		if old != nil && (now == nil || old.uid() != now.uid()) {
			if !yield(Change{Deleted, ch.key, t, nil, old}) {
				return
			}
			old = nil
		}
		if v := ch.vanished; v != nil && (now == nil || now.uid() != v.uid()) {
			if !yield(Change{Added, ch.key, t, nil, v}) || !yield(Change{Deleted, ch.key, t, nil, v}) {
				return
			}
		}
		switch {
		case now == nil, old == now:
		case old == nil:
			if !yield(Change{Added, ch.key, t, nil, now}) {
				return
			}
		case !yield(Change{Modified, ch.key, t, old, now}):
			return
		}
	}
}

// subscription is what one loop over changes has not taken yet.
type subscription struct {
	wake chan struct{} // holds a token when something waits

	mu    sync.Mutex
	queue []Key
	// waiting holds what the loop last saw of an object, or the last state of
	// what it saw, if that is gone. Nil: it saw none.
	waiting map[Key]*entry
	// vanished holds objects that this process wrote and that were deleted before
	// the loop was told of them.
	vanished map[Key]*entry
	synced   int // position in the queue of the sync mark; below zero: none
}

// taken is a change that a loop has taken.
type taken struct {
	key      Key
	old, now *entry
	vanished *entry
	synced   bool
}

func (t *table) subscribe() *subscription {
	sub := &subscription{wake: make(chan struct{}, 1), waiting: make(map[Key]*entry), synced: -1}
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range t.entries {
		sub.notify(key, nil)
	}
	if t.unsynced == 0 {
		sub.sync()
	}
	t.watchers[sub] = struct{}{}
	return sub
}

func (t *table) unsubscribe(sub *subscription) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.watchers, sub)
}

// notify notes that an object changed from old. The table's mu is held.
func (s *subscription) notify(key Key, old *entry) {
	s.mu.Lock()
	switch saw, ok := s.waiting[key]; {
	case !ok:
		s.waiting[key] = old
		s.queue = append(s.queue, key)
	case saw != nil && old != nil && saw.is(old.uid()):
		s.waiting[key] = old
	}
	s.mu.Unlock()
	s.signal()
}

// vanished tells all subscribers of an object that this process wrote and that is
// not there: those who have not seen it get it as Added and as Deleted.
func (t *table) vanished(key Key, e *entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tellVanished(key, e)
}

// tellVanished is vanished with mu held.
func (t *table) tellVanished(key Key, e *entry) {
	for w := range t.watchers {
		w.vanish(key, e, t.entries[key])
	}
}

func (s *subscription) vanish(key Key, e, now *entry) {
	s.mu.Lock()
	saw, waits := s.waiting[key]
	if !waits {
		saw = now
	}
	if saw != nil && (saw.is(e.uid()) || !waits) {
		s.mu.Unlock()
		return // the loop has seen it, and gets it as Deleted, or has seen its successor
	}
	if !waits {
		s.waiting[key] = nil
		s.queue = append(s.queue, key)
	}
	if s.vanished == nil {
		s.vanished = make(map[Key]*entry)
	}
	s.vanished[key] = e
	s.mu.Unlock()
	s.signal()
}

// sync marks that what waits by now is all there was.
func (s *subscription) sync() {
	s.mu.Lock()
	s.synced = len(s.queue)
	s.mu.Unlock()
	s.signal()
}

func (s *subscription) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// next takes the change that has waited longest.
func (t *table) next(s *subscription) (taken, bool) {
	t.mu.RLock() // what the loop is told it has seen must be what is there
	defer t.mu.RUnlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.synced == 0 {
		s.synced = -1
		return taken{synced: true}, true
	}
	if len(s.queue) == 0 {
		s.queue = nil // the backing array was as large as the largest burst
		return taken{}, false
	}
	key := s.queue[0]
	s.queue = s.queue[1:]
	if s.synced > 0 {
		s.synced--
	}
	ch := taken{key: key, old: s.waiting[key], now: t.entries[key], vanished: s.vanished[key]}
	delete(s.waiting, key)
	delete(s.vanished, key)
	return ch, true
}
