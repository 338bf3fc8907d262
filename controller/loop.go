package controller

import (
	"cmp"
	"hash/maphash"
	"math"
	"slices"
	"time"

	"github.com/pintle-go/pintle/internal/written"
	"github.com/pintle-go/pintle/kube"
)

// A hot loop is a chain of reconciles that cause one another without end: of one object, of
// several, or of several controllers of a program. Depth tells such a chain from real work. A
// write of a reconcile has the depth of that reconcile and one more, and so has its request
// for another one within a second. A reconcile has the least depth of its causes. Everything
// else has depth 0: what others change, a longer wait, a resync, the first listing. So work
// that others give ends a chain, and a plan of many layers is as deep as it has layers.
//
// Of many causes some are only counted. They are those whose depth is known, as long as there are such.
//
// A loop may lead through another controller, which answers a write of a spec with a write of the
// status. So others' changes that leave the generation as it is have the depth of a write that
// made it, if they come within a second. However many answers one write has, they have one depth.

const (
	// hotDepth is the depth of a hot loop.
	hotDepth = 100
	// hotPause is how long a reconcile in a hot loop waits. A reconcile that asks for another
	// one after this time or more causes no loop.
	hotPause = time.Second
	// noDepth is the depth of a cause that neither continues a chain nor ends one.
	noDepth = math.MaxInt
)

const (
	// depthsTime is how long a key may wait for its turn before the depths of its causes are
	// forgotten, if a program makes no more than depthsKept writes in that time.
	depthsTime = 10 * time.Minute
	// depthsKept are 9 MB of depths, for each of two periods.
	depthsKept = 1 << 18
)

// loops reports whether a reconcile of a depth is in a hot loop. Hot means that the reconcile before
// was in one, and caused others: it wrote something, or asked for itself within hotPause.
func loops(hot bool, depth int) bool { return depth >= hotDepth || hot && depth > 0 }

// depth returns the least depth of the causes. The answer to a write may come after the change that
// it has caused, so the result can be another one a moment later.
func (cs *causes) depth(d depths) int {
	least := noDepth
	if cs.rest > 0 {
		least = cs.rest - 1
	}
	for i := range cs.list {
		least = min(least, cs.list[i].depthBy(d))
	}
	if least == noDepth {
		return 0
	}
	return least
}

// depthBy returns the depth of a cause.
func (c *Cause) depthBy(d depths) int {
	if c.Reason != Changed {
		return c.depth
	}
	least := d.of(stateOf(c.Change), c.Change.Deleting())
	for _, m := range c.merged {
		if m.version != "" {
			least = min(least, d.of(objectState{c.Change.UID(), m.version}, m.deleting))
		}
	}
	return least
}

// makeRoom leaves a cause out if there are many. It takes one whose depth is known: the answer to the
// write that led to another one may still be on its way, and what others change must not be left out.
func (cs *causes) makeRoom(d depths) {
	for i := 0; len(cs.list) == causesKept && i < causesKept; i++ {
		if depth := cs.list[i].depthBy(d); depth > 0 {
			cs.list = slices.Delete(cs.list, i, i+1)
			cs.leaveOut(depth)
		}
	}
}

// leaveOut counts a cause that is not kept. A change that is not kept has noDepth.
func (cs *causes) leaveOut(depth int) {
	cs.more++
	if depth != noDepth && (cs.rest == 0 || depth < cs.rest) {
		cs.rest = depth + 1
	}
}

// depths holds the depths of the writes of all reconciles of a program. The depth of a state is
// negative if it is an answer of others to a write.
type depths struct {
	*memory[int32]
	made *memory[making] // by the uid
}

// making is the last write that made a generation of an object.
type making struct {
	depth int32
	at    time.Time
}

func newDepths() depths {
	return depths{newMemory[int32](depthsTime, depthsKept), newMemory[making](hotPause, depthsKept)}
}

func (d depths) hash(s objectState) uint64 { return maphash.Comparable(d.seed, s) }

// of returns the depth of a state of an object. If the object is being deleted, the state may
// be a consequence of that deletion.
func (d depths) of(state objectState, deleting bool) int {
	depth := d.get(d.hash(state))
	if depth == 0 && deleting {
		depth = d.get(d.hash(objectState{uid: state.uid}))
	}
	return int(max(depth, -depth))
}

// note notes a write of a reconcile. It reports whether the write has changed anything: a version
// that an earlier write has made does not show that.
func (d depths) note(w written.Write, reconcile int, now time.Time) (changed bool) {
	changed = true
	depth := int32(min(reconcile+1, math.MaxInt32))
	least := func(known int32) int32 {
		if known > 0 {
			return min(known, depth)
		}
		return depth
	}
	if w.ResourceVersion != "" {
		d.update(d.hash(objectState{w.UID, w.ResourceVersion}), now, func(known int32) int32 {
			changed = known <= 0
			return least(known)
		})
	}
	if w.Deleted && w.UID != "" {
		d.update(d.hash(objectState{uid: w.UID}), now, least)
	}
	if w.Renewed && changed {
		d.made.update(d.hash(objectState{uid: w.UID}), now, func(making) making { return making{depth, now} })
	}
	return changed
}

// answer notes a change that has come. It may be an answer of others to a write.
func (d depths) answer(c kube.Change, now time.Time) {
	if c.Type != kube.Modified || !d.made.fade(now) {
		return
	}
	if m := d.made.get(d.hash(objectState{uid: c.UID()})); now.Sub(m.at) < hotPause && !c.NewGeneration() {
		d.update(d.hash(stateOf(c)), now, func(known int32) int32 { return cmp.Or(known, -m.depth) })
	}
}
