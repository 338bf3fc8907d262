package controller

import (
	"cmp"
	"hash/maphash"
	"math"
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
// Causes that are only counted, and changes that are merged and not kept, have no part in that.
// Each depth is that of a chain of writes, so a chain that ends is never taken for a loop.
//
// A loop may lead through another controller, which answers a write of a spec with a write of the
// status. So others' changes that leave the generation as it is have the depth of a write that
// made it, if they come within answerTime. However many answers one write has, they have one depth.

const (
	// hotDepth is the depth of a hot loop.
	hotDepth = 100
	// hotPause is how long a reconcile in a hot loop waits. A reconcile that asks for another
	// one after this time or more causes no loop.
	hotPause = time.Second
	// answerTime is at least how long changes by others may answer a write. A reconcile in a hot
	// loop must write again in this time: the answer to its write may come before the server's.
	answerTime = 2 * hotPause
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
	for i := range cs.list {
		c := &cs.list[i]
		if c.Reason != Changed {
			least = min(least, c.depth)
			continue
		}
		least = min(least, d.of(stateOf(c.Change), c.Change.Deleting()))
		for _, m := range c.merged {
			if m.version != "" {
				least = min(least, d.of(objectState{c.Change.UID(), m.version}, m.deleting))
			}
		}
	}
	if least == noDepth {
		return 0
	}
	return least
}

// depths holds the depths of the writes of all reconciles of a program. The depth of a state is
// negative if it is an answer of others to a write.
type depths struct {
	*memory[int32]
	made *memory[int32] // the depths of the last writes that made a generation, by the uid
}

func newDepths() depths {
	return depths{newMemory[int32](depthsTime, depthsKept), newMemory[int32](answerTime, depthsKept)}
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
		d.made.update(d.hash(objectState{uid: w.UID}), now, func(int32) int32 { return depth })
	}
	return changed
}

// answer notes a change that has come. It may be an answer of others to a write.
func (d depths) answer(c kube.Change, now time.Time) {
	if c.Type != kube.Modified || !d.made.fade(now) {
		return
	}
	if depth := d.made.get(d.hash(objectState{uid: c.UID()})); depth > 0 && !c.NewGeneration() {
		d.update(d.hash(stateOf(c)), now, func(known int32) int32 { return cmp.Or(known, -depth) })
	}
}
