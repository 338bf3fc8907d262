package controller

import (
	"cmp"
	"hash/maphash"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/pintle-go/pintle/internal/written"
)

// A hot loop is a chain of reconciles that cause one another without end: of one object, of
// several, or of several controllers of a program. Depth tells such a chain from real work. A
// write of a reconcile has the depth of that reconcile and one more, and so has its request
// for another one within a second. A reconcile has the least depth of its causes. Everything
// else has depth 0: what others change, a longer wait, a resync, the first listing. So work
// that others give ends a chain, and a plan of many layers is as deep as it has layers.

const (
	// hotDepth is the depth of a hot loop.
	hotDepth = 100
	// hotPause is how long a reconcile in a hot loop waits. A reconcile that asks for another
	// one after this time or more causes no loop.
	hotPause = time.Second
	// doubt is how long a reconcile waits after a reconcile in a hot loop if its causes seem to
	// be others' changes. The answer to the write that they show may still be on its way.
	doubt = 100 * time.Millisecond
	// hotAgain is how often a hot loop that does not end is reported.
	hotAgain = 5 * time.Minute
)

// loop is what a key remembers of a hot loop.
type loop struct {
	hot  bool      // the last reconcile was in a hot loop, and continues it
	said time.Time // when the loop was last reported
}

// rest returns how long a reconcile of a depth must wait.
func (l loop) rest(depth int) time.Duration {
	switch {
	case depth >= hotDepth, l.hot && depth > 0:
		return hotPause
	case l.hot:
		return doubt
	}
	return 0
}

// after returns what is remembered after a reconcile of a depth, and whether to report a hot
// loop. A reconcile causes others if it wrote something, or asked for itself within hotPause.
func (l loop) after(depth int, causes bool, now time.Time) (next loop, report bool) {
	l.hot = causes && l.rest(depth) == hotPause
	if report = l.hot && (l.said.IsZero() || now.Sub(l.said) >= hotAgain); report {
		l.said = now
	}
	return l, report
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
const restKept = 128

// fold replaces the older half of the states that are not in the list by their least depth,
// if there are too many of them. The answers to writes that led to the later half may still
// be on their way.
func (cs *causes) fold(of func(state objectState, deleting bool) int) {
	x := cs.chain
	if x == nil || len(x.rest) < restKept {
		return
	}
	older := causes{chain: &chain{rest: x.rest[:restKept/2], folded: x.folded}}
	x.folded, x.rest = older.depth(of)+1, slices.Clone(x.rest[restKept/2:])
}

// memory remembers values by hashes for one or two periods, and for a shorter time if there
// are very many of them.
type memory[V any] struct {
	period     time.Duration
	seed       maphash.Seed
	mu         sync.Mutex
	began      time.Time
	young, old map[uint64]V
}

// memoryKept is how many values are remembered in one period.
const memoryKept = 1 << 17

func newMemory[V any](period time.Duration) *memory[V] {
	return &memory[V]{period: period, seed: maphash.MakeSeed(), young: make(map[uint64]V)}
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
	if now.Sub(m.began) >= m.period || len(m.young) >= memoryKept {
		m.old, m.young, m.began = m.young, make(map[uint64]V), now
	}
	return len(m.young)+len(m.old) > 0
}

// depths holds the depths of the writes of all reconciles of a program.
type depths struct{ *memory[int32] }

func newDepths() depths { return depths{newMemory[int32](time.Minute)} }

// of returns the depth of a state of an object. If the object is being deleted, the state may
// be a consequence of that deletion.
func (d depths) of(state objectState, deleting bool) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range []objectState{state, {uid: state.uid}} {
		hash := maphash.Comparable(d.seed, s)
		if depth := cmp.Or(d.young[hash], d.old[hash]); depth > 0 {
			return int(depth)
		}
		if !deleting {
			break
		}
	}
	return 0
}

// note notes a write of a reconcile.
func (d depths) note(w written.Write, reconcile int, now time.Time) {
	depth := int32(min(reconcile+1, math.MaxInt32))
	least := func(known int32) int32 {
		if known > 0 {
			return min(known, depth)
		}
		return depth
	}
	if w.ResourceVersion != "" {
		d.update(maphash.Comparable(d.seed, objectState{w.UID, w.ResourceVersion}), now, least)
	}
	if w.Deleted && w.UID != "" {
		d.update(maphash.Comparable(d.seed, objectState{uid: w.UID}), now, least)
	}
}
