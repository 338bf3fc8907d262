package kube

import (
	"context"
	"math"
	"sync"

	"github.com/pintle-go/pintle/kube/internal/hamt"
)

// follow calls yield with changes until yield returns false or there are no more.
func (s *subscription) follow(ctx context.Context, yield func(Change) bool) {
	s.table.followers.add(s)
	defer s.table.followers.remove(s)
	for stopped := false; ; {
		more := true
		for more {
			var left bool
			if more, left = s.round(ctx, yield); left {
				return
			}
		}
		if stopped {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-s.table.done:
			stopped = true // waiting changes are still delivered
		case <-s.wake:
		}
	}
}

// subscription holds the objects that one loop over changes has seen. Except for its
// shared parts, it belongs to the loop's goroutine.
type subscription struct {
	table *table
	wake  chan struct{} // holds a token when there is a newer snapshot
	every bool          // the loop is shown every snapshot

	seen   entries // the objects that the loop was shown
	synced bool    // Synced was shown, and no steps were left out since
	until  uint64  // the loop is shown nothing of the snapshots after this number

	// number is the number of the latest snapshot whose changes were all shown. The
	// followers' mu guards it.
	number uint64

	// behind holds the snapshots that a loop which is shown every one has not been shown,
	// the oldest first. If there were more than stepsKept of them, merged is set and only
	// the latest one is left. The followers' mu guards both.
	behind []*snapshot
	merged bool

	mu      sync.Mutex
	unknown map[Key]*entry // see table.vanished
}

// round shows the loop the changes from the objects that it has seen to the present
// content or, if it is shown every snapshot, to the next one. It returns whether there may
// be more changes, and whether the loop was left.
func (s *subscription) round(ctx context.Context, yield func(Change) bool) (more, left bool) {
	to, vanished := s.table.followers.next(s)
	if s.until = math.MaxUint64; s.every && to != nil {
		s.until = to.number
	}
	if !s.showVanished(ctx, vanished, yield) {
		return false, true
	}
	if to == nil {
		return false, false
	}
	var ahead []keyed // objects that were shown in a later state than the one of to
	for c := range hamt.Diff(s.seen, to.entries) {
		now := s.now(c.Key, deref(c.Is))
		if now != deref(c.Is) {
			ahead = append(ahead, keyed{c.Key, now})
		}
		if ctx.Err() != nil || !s.show(c.Key, deref(c.Was), now, yield) {
			return false, true
		}
	}
	s.seen = to.entries
	for _, k := range ahead {
		s.saw(k.key, k.entry)
	}
	if to.synced && !s.synced {
		s.synced = true
		if ctx.Err() != nil || !yield(Change{Type: Synced, of: &s.table.handle}) {
			return false, true
		}
	}
	s.table.followers.reached(s, to.number)
	return s.every || s.table.now() != to, false
}

// now returns the present state of an object. A loop that is shown every snapshot gets
// the state in the snapshot that it is shown.
func (s *subscription) now(key Key, shown *entry) *entry {
	if s.every {
		return shown
	}
	return s.table.entry(key)
}

// keep keeps a snapshot for a loop that is shown every one. The caller holds the
// followers' mu.
func (s *subscription) keep(next *snapshot) {
	if len(s.behind) == stepsKept {
		s.behind, s.merged = nil, true
	}
	s.behind = append(s.behind, next)
}

// awake makes the loop look for changes.
func (s *subscription) awake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// saw notes the state of an object that the loop was shown, nil for the object's end.
func (s *subscription) saw(key Key, e *entry) {
	if e == nil {
		s.seen = s.seen.Without(nil, key)
		return
	}
	s.seen = s.seen.With(nil, key, e)
}

// show yields the change of an object. It returns false if the loop was left.
func (s *subscription) show(key Key, was, is *entry, yield func(Change) bool) bool {
	if was != nil && (is == nil || was.UID() != is.UID()) {
		if !yield(Change{Deleted, key, &s.table.handle, was, s.lastOf(key, was)}) {
			return false
		}
		was = nil
	}
	switch {
	case is == was:
		return true
	case was == nil:
		return yield(Change{Added, key, &s.table.handle, nil, is})
	}
	return yield(Change{Modified, key, &s.table.handle, was, is})
}

// lastOf returns the last state of an object that is gone, as far as it is known. The
// loop gets that state when it is shown the object's end.
func (s *subscription) lastOf(key Key, was *entry) *entry {
	uid := was.UID()
	s.mu.Lock()
	if e := s.unknown[key]; e != nil && e.Is(uid) {
		delete(s.unknown, key)
	}
	s.mu.Unlock()
	if last := s.table.followers.last(key, uid, s.until); last != nil {
		return last
	}
	return was
}

// takeVanished returns the objects that were noted for showVanished.
func (s *subscription) takeVanished() (vanished map[Key]*entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	vanished, s.unknown = s.unknown, nil
	return vanished
}

// showVanished yields objects that the loop has not seen and that are gone.
func (s *subscription) showVanished(
	ctx context.Context, vanished map[Key]*entry, yield func(Change) bool,
) bool {
	for key, e := range vanished {
		uid := e.UID()
		was, _ := s.seen.Get(key)
		is := s.now(key, was)
		switch {
		case was != nil && was.Is(uid):
			continue // a difference shows its end
		case is != nil && is.Is(uid):
			s.vanished(key, e, false) // it is about to go
			continue
		case was != nil && is != nil && was.Is(is.UID()):
			continue // the loop has seen its successor
		case ctx.Err() != nil:
			return false
		}
		if !s.show(key, was, e, yield) || !yield(Change{Deleted, key, &s.table.handle, e, e}) {
			return false
		}
		s.saw(key, nil)
	}
	return true
}

// vanished notes an object for showVanished. It replaces another noted object of the name
// if later is true.
func (s *subscription) vanished(key Key, e *entry, later bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unknown == nil {
		s.unknown = make(map[Key]*entry)
	}
	if later || s.unknown[key] == nil {
		s.unknown[key] = e
	}
}
