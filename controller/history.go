package controller

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/internal/versions"
	"github.com/pintle-go/pintle/internal/written"
	"github.com/pintle-go/pintle/kube"
)

// history is the memory of a key between its turns. As a rule, a key without recent turns
// has none. The dispatcher's goroutine owns it.
type history struct {
	// failures counts the failures in a row. The writes of a failed reconcile itself
	// cause no turn before retryAt.
	failures int
	retryAt  time.Time
	last     time.Time   // the end of the last turn
	read     objectState // by the last turn that read an object
	// removed are objects of the key that are gone. The controller must still be told of
	// them.
	removed []kube.Change
	// writes is nil after turns without writes. It is also nil when the last turn was so
	// long ago that all its changes are known.
	writes *writes
	hot    bool // the last turn was in a hot loop, and continues it
}

// fadeAfter is how long after a turn its writes are forgotten.
const fadeAfter = time.Minute

// fade forgets facts that do not matter any more. It returns whether anything is left.
func (h *history) fade(now time.Time, minInterval time.Duration) bool {
	if since := now.Sub(h.last); since >= fadeAfter {
		h.writes, h.hot = nil, false
	}
	return h.failures > 0 || len(h.removed) > 0 || h.fading(now, minInterval)
}

// fading reports that something of the history will be forgotten.
func (h *history) fading(now time.Time, minInterval time.Duration) bool {
	return h.writes != nil || h.hot || now.Sub(h.last) < minInterval
}

// putOff returns the time until which the next turn of the key must wait. If the turn
// need not wait, the result is zero or a time that has passed.
func (h *history) putOff(it *item, depth int, minInterval time.Duration, now time.Time) (until time.Time) {
	if h.failures > 0 && now.Before(h.retryAt) && h.causedBySelf(&it.causes) {
		return h.retryAt // a failure that is written into a status must not cause its own retry
	}
	if (h.hot || depth >= hotDepth) && len(h.removed) == 0 {
		it.causes.held = cmp.Or(it.causes.held, now)
		until = it.causes.held.Add(hotPause)
	}
	if least := h.last.Add(minInterval); minInterval > 0 && !h.last.IsZero() && until.Before(least) {
		until = least
	}
	return until
}

// causedBySelf reports that the only causes are the writes of the key's last turns,
// besides a retry that is due anyhow.
func (h *history) causedBySelf(cs *causes) bool {
	own := 0
	for _, c := range cs.list {
		switch {
		case c.Reason == Changed && h.writes.made(c):
			if c.Change.Type == kube.Modified && c.Change.NewGeneration() {
				return false // the change may include a change of the spec by somebody else
			}
			own++
		case c.Reason != Retried:
			return false
		}
	}
	return own > 0 && cs.more == 0
}

// tell notes the number of removed objects that the controller has been told of.
func (h *history) tell(told int) {
	h.removed = h.removed[min(told, len(h.removed)):]
	if len(h.removed) == 0 {
		h.removed = nil
	}
}

// end notes the result of a turn.
func (h *history) end(t *turn, now time.Time) {
	h.tell(t.told)
	h.last = now
	if t.uid != "" {
		h.read = objectState{t.uid, t.read}
	}
	h.failures, h.retryAt = 0, time.Time{}
	if t.failed {
		h.failures = t.failures
		if t.next != nil {
			h.retryAt = t.next.due
		}
	}
	h.hot = t.hot && !t.absent
	if t.absent || !t.writes.any() {
		h.writes = nil
		return
	}
	t.writes.follow(h.writes)
	h.writes = t.writes
}

// writes are the writes of a turn, and the last writes of the turns before. The changes
// of those may come late if they come by another watch. A reconcile may write from any
// goroutine: hence the lock.
type writes struct {
	mu     sync.Mutex
	states []objectState
	// deleted are objects that were deleted.
	deleted []types.UID
}

// objectState is a state of an object. Servers that do not share their storage, such as an
// aggregated one, may use one resourceVersion for two objects.
type objectState struct {
	uid     types.UID
	version string
}

func stateOf(c kube.Change) objectState { return objectState{c.UID(), c.ResourceVersion()} }

// overWith reports that a state, or an unknown one, is over with an end: the last state of
// an object that is gone or has left the selection. Later states of the object are not: it
// is back in the selection.
func (s objectState) overWith(end objectState) bool {
	return s.uid == "" || s.uid == end.uid && !versions.Older(end.version, s.version)
}

// mark is what is kept of the state of an object that a later reconcile is about. There may be one for
// each object, so it is small.
type mark struct {
	uid uint32 // a hash; 0: the state is not known
	// version is the lower half of the version, if it is a number. Versions of one object are
	// seldom as far from one another as half of the numbers, and then a key that has ended is
	// reconciled once more.
	version uint32
	ordered bool // the version is a number
}

func markOf(s objectState) mark {
	if s.uid == "" {
		return mark{}
	}
	version, ordered := versions.Number(s.version)
	return mark{uid: hashOf(s.uid), version: uint32(version), ordered: ordered} //nolint:gosec // see mark
}

// hashOf returns a hash of a uid that is not 0, FNV-1a.
func hashOf(uid types.UID) uint32 {
	sum := uint32(2166136261)
	for i := range len(uid) {
		sum = (sum ^ uint32(uid[i])) * 16777619
	}
	return max(sum, 1)
}

// overWith does for a mark what it does for a state.
func (m mark) overWith(end objectState) bool {
	if m.uid == 0 {
		return true
	}
	is := markOf(end)
	older := m.ordered && is.ordered && int32(is.version-m.version) < 0 //nolint:gosec // it wraps around
	return m.uid == is.uid && !older
}

// writesKept is how many writes of earlier turns are remembered.
const writesKept = 16

func (w *writes) note(x written.Write) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if x.Deleted && x.UID != "" {
		w.deleted = append(w.deleted, x.UID)
	}
	if x.ResourceVersion != "" {
		w.states = append(w.states, objectState{x.UID, x.ResourceVersion})
	}
}

func (w *writes) any() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.states)+len(w.deleted) > 0
}

// follow adds the last writes of the turn before. That turn has ended.
func (w *writes) follow(before *writes) {
	if before == nil {
		return
	}
	before.mu.Lock()
	states, deleted := before.states, before.deleted
	before.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.states = join(states, w.states)
	w.deleted = join(deleted, w.deleted)
}

// join returns the last of the earlier elements and all of the later.
func join[E any](earlier, later []E) []E {
	return slices.Concat(earlier[max(0, len(earlier)-writesKept):], later)
}

// made reports that the changes of a cause are all among the writes. If somebody else
// changes the same object, one of the writes follows, and the store has only the state
// after both, as after a listing, the two changes look like one write.
func (w *writes) made(c Cause) bool {
	if w == nil {
		return false
	}
	uid := c.Change.UID()
	for _, m := range c.merged {
		if !w.include(m.version, uid, m.deleting) {
			return false
		}
	}
	return w.include(c.Change.ResourceVersion(), uid, c.Change.Deleting())
}

func (w *writes) include(version string, uid types.UID, deleting bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return deleting && slices.Contains(w.deleted, uid) || slices.Contains(w.states, objectState{uid, version})
}
