package kube

import (
	"context"
	"sort"

	"github.com/pintle-go/pintle/internal/versions"
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

// subscription holds the objects that one loop over changes has seen. Except for the parts that the
// followers' mu guards, it belongs to the loop's goroutine.
type subscription struct {
	table *table
	from  *origin
	wake  chan struct{} // holds a token when there is a newer snapshot
	every bool          // the loop is shown every snapshot

	seen   entries // the objects that the loop was shown
	synced bool    // Synced was shown, and no steps were left out since

	// number is the number of the latest snapshot whose changes were all shown. The
	// followers' mu guards it.
	number uint64
	// decodes: the loop decoded a change of the latest snapshot that had any. The followers' mu
	// guards it.
	decodes bool

	// behind holds the snapshots that a loop which is shown every one has not been shown,
	// the oldest first. If there were more than stepsKept of them, merged is set and only
	// the latest one is left. The followers' mu guards both.
	behind []*snapshot
	merged bool
}

// round shows the loop the changes from the objects that it has seen to the present
// content or, if it is shown every snapshot, to the next one. It returns whether there may
// be more changes, and whether the loop was left.
func (s *subscription) round(ctx context.Context, yield func(Change) bool) (more, left bool) {
	to, ends := s.table.followers.next(s)
	if to == nil {
		return false, false
	}
	// The ends of objects that the loop has seen come first: others may have ended before these were
	// made.
	sort.SliceStable(ends, func(i, j int) bool { return s.unseen(ends[i]) < s.unseen(ends[j]) })
	for _, e := range ends {
		if ctx.Err() != nil || !s.showEnd(e, to, yield) {
			return false, true
		}
	}
	changed := len(ends) > 0
	var ahead []keyed // objects that were shown in a later state than the one of to
	for c := range hamt.Diff(s.seen, to.entries) {
		changed = true
		now := s.now(c.Key, deref(c.Was), deref(c.Is))
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
		if ctx.Err() != nil || !yield(Change{Type: Synced, of: s.from}) {
			return false, true
		}
	}
	s.table.followers.reached(s, to.number, changed)
	return s.every || s.table.now().number != to.number, false
}

// unseen returns 0 for the end of an object that the loop has seen, and otherwise 1.
func (s *subscription) unseen(e end) int {
	if was, _ := s.seen.Get(e.key); was != nil && was.Is(e.entry.UID()) {
		return 0
	}
	return 1
}

// showEnd yields the end of an object that the loop has seen. If this process wrote the object,
// showEnd also yields it to a loop that has not seen it. The loop may have seen a later object of the
// name by then, which exists: that one is yielded again, as Added, with the snapshot to.
func (s *subscription) showEnd(e end, to *snapshot, yield func(Change) bool) bool {
	was, _ := s.seen.Get(e.key)
	switch {
	case was != nil && was.Is(e.entry.UID()):
		if versions.Older(e.entry.ResourceVersion(), was.ResourceVersion()) {
			return true // the object has come back to the selection, and the loop was shown it since
		}
	case e.own:
		if is := to.entry(e.key); was != nil && is != nil && is.Is(was.UID()) {
			was = nil
		}
		if !s.show(e.key, was, e.entry, yield) {
			return false
		}
		was = e.entry
	default:
		return true
	}
	s.saw(e.key, nil)
	return yield(Change{Deleted, e.key, s.from, was, e.entry})
}

// now returns the newest state of an object whose state in a snapshot is shown. A loop that is
// shown every snapshot gets the state in the snapshot. An object that was never shown and has
// ended is left out.
func (s *subscription) now(key Key, was, shown *entry) *entry {
	if s.every || shown == nil {
		return shown
	}
	now := s.table.entry(key)
	if now != nil && now.Is(shown.UID()) || now == nil && was == nil {
		return now
	}
	return shown
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
		if !yield(Change{Deleted, key, s.from, was, was}) {
			return false
		}
		was = nil
	}
	switch {
	case is == was:
		return true
	case was == nil:
		return yield(Change{Added, key, s.from, nil, is})
	}
	return yield(Change{Modified, key, s.from, was, is})
}
