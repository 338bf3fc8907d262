package controller

import (
	"cmp"
	"hash/maphash"
	"math"
	"slices"
	"sync"
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
// A loop may lead through another controller, which answers a write of a spec with a write of the
// status. So others' changes that leave the generation as it is have the depth of a write that
// made it, if they come within answerTime. However many answers one write has, they have one depth.

const (
	// hotDepth is the depth of a hot loop.
	hotDepth = 100
	// hotPause is how long a reconcile in a hot loop waits. A reconcile that asks for another
	// one after this time or more causes no loop.
	hotPause = time.Second
	// doubt is how long a reconcile waits after a reconcile in a hot loop if its causes seem to
	// be others' changes. The answer to the write that they show may still be on its way.
	doubt = 100 * time.Millisecond
	// answerTime is at least how long changes by others may answer a write. A reconcile in a hot
	// loop must write again in this time: the answer to its write may come before the server's.
	answerTime = 2 * hotPause
	// hotAgain is how often a hot loop that does not end is reported.
	hotAgain = 5 * time.Minute
)

// pauseFor returns how long a reconcile of a depth must wait. Hot means that the reconcile before was
// in a hot loop, and caused others: it wrote something, or asked for itself within hotPause.
func pauseFor(hot bool, depth int) time.Duration {
	switch {
	case depth >= hotDepth, hot && depth > 0:
		return hotPause
	case hot:
		return doubt
	}
	return 0
}

// chain holds what few causes have, for the rules of this file.
type chain struct {
	// rest are states of objects in causes and merged changes that are not kept. Folded is
	// one more than the least depth of those that are not in rest either, zero if there are
	// none.
	rest   []objectEnd
	folded int
	timed  int       // the depth of the timed cause
	held   time.Time // since when the key waits because of a hot loop, zero if it does not
}

func (c *chain) add(s objectEnd) { c.rest = append(c.rest, s) }

func (cs *causes) chained() *chain {
	if cs.chain == nil {
		cs.chain = new(chain)
	}
	return cs.chain
}

// depth returns the least depth of the causes. The function of returns that of a state of an
// object.
func (cs *causes) depth(of func(state objectState, deleting bool) int) int {
	least := math.MaxInt
	if cs.chain != nil && cs.chain.folded > 0 {
		least = cs.chain.folded - 1
	}
	for i := range cs.list {
		c := &cs.list[i]
		if c.Reason != Changed {
			least = min(least, c.depth)
			continue
		}
		for _, m := range c.merged {
			if m.version != "" {
				least = min(least, of(objectState{c.Change.UID(), m.version}, m.deleting))
			}
		}
		least = min(least, of(stateOf(c.Change), c.Change.Deleting()))
	}
	for i := 0; cs.chain != nil && i < len(cs.chain.rest); i++ {
		least = min(least, of(cs.chain.rest[i].objectState, cs.chain.rest[i].deleting))
	}
	if least == math.MaxInt {
		return 0
	}
	return least
}

// restKept bounds the states of causes that are not in the list.
const restKept = 512

// fold replaces states that are not in the list by their least depth, if there are too many of
// them. It keeps those without a depth: the answers to the writes that led to them may still be on
// their way. It keeps no more than half, the later ones.
func (cs *causes) fold(of func(state objectState, deleting bool) int) {
	x := cs.chain
	if x == nil || len(x.rest) < restKept {
		return
	}
	var late []objectEnd
	least := math.MaxInt
	for i := len(x.rest) - 1; i >= 0; i-- {
		s := x.rest[i]
		if depth := of(s.objectState, s.deleting); depth == 0 && len(late) < restKept/2 {
			late = append(late, s)
		} else {
			least = min(least, depth)
		}
	}
	slices.Reverse(late)
	x.rest = late
	x.fold(least)
}

// fold takes the depth of a cause that is not kept.
func (c *chain) fold(depth int) {
	if c.folded == 0 || depth < c.folded {
		c.folded = depth + 1
	}
}

// memory remembers values by hashes for one or two periods, and for a shorter time if there
// are very many of them.
type memory[V any] struct {
	period     time.Duration
	most       int // values in one period
	seed       maphash.Seed
	mu         sync.Mutex
	began      time.Time
	young, old map[uint64]V
}

const (
	// depthsTime is how long a key may wait for its turn before the depths of its causes are
	// forgotten, if a program makes no more than depthsKept writes in that time.
	depthsTime = 10 * time.Minute
	// depthsKept are 9 MB of depths, for each of two periods.
	depthsKept = 1 << 18
	// keysKept are 9 MB of streaks or 5 MB of times, for each of two periods.
	keysKept = 1 << 16
)

func newMemory[V any](period time.Duration, most int) *memory[V] {
	return &memory[V]{period: period, most: most, seed: maphash.MakeSeed(), young: make(map[uint64]V)}
}

// update replaces a value, which is zero at first, by what f makes of it.
func (m *memory[V]) update(hash uint64, now time.Time, f func(V) V) V {
	m.fade(now)
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.young[hash]
	if !ok {
		v = m.old[hash]
	}
	v = f(v)
	m.young[hash] = v
	return v
}

// fade forgets the values of the period before the last one. It returns whether any are
// left.
func (m *memory[V]) fade(now time.Time) (left bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if age := now.Sub(m.began); age >= m.period || len(m.young) >= m.most {
		if age >= 2*m.period { // nobody has asked for so long
			m.young = nil
		}
		m.old, m.young, m.began = m.young, make(map[uint64]V), now
	}
	return len(m.young)+len(m.old) > 0
}

// get returns a value, zero if there is none.
func (m *memory[V]) get(hash uint64) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v, ok := m.young[hash]; ok {
		return v
	}
	return m.old[hash]
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
