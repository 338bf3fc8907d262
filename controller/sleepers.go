package controller

import (
	"hash/maphash"
	"time"

	"github.com/pintle-go/pintle/kube"
)

// sleepers holds the keys that wait only for a time: those of reconciles that have
// asked for the next one, or will be resynced. There may be as many of them as objects. So each takes
// the 48 bytes of a sleeper, and at most 11 more in a table.
type sleepers struct {
	base time.Time
	seed maphash.Seed
	// pieces are a heap, the earliest time first. It is in pieces because a slice that grows has
	// a fifth of its room empty.
	pieces [][]sleeper
	n      int
	// table is a hash table of places in the heap: one more than the place, zero if it is free.
	// It has at most three quarters of its room taken, and keys with one hash follow one another.
	table []uint32
}

// sleeper is a key that waits for a time. At has the nanoseconds since the base, and below them four
// bits: the priority, whether it waits for a resync, and whether the version of the mark counts.
type sleeper struct {
	key          kube.Key
	at           uint64
	uid, version uint32 // of the mark
}

const (
	flagBits    = 4
	resyncFlag  = 1 << 2
	orderedFlag = 1 << 3

	pieceBits = 10
	piece     = 1 << pieceBits // sleepers in a piece, which are six pages of memory

	leastTable = 16
)

// newSleepers returns no sleepers. Their times will be later than now.
func newSleepers(now time.Time) sleepers {
	return sleepers{base: now, seed: maphash.MakeSeed(), table: make([]uint32, leastTable)}
}

// fits returns a request as a sleeper. It returns false if the request has more than a time, or one
// that is very far away, or one so near that the key is better put into the queue at once.
func (s *sleepers) fits(r request, now time.Time) (sleeper, bool) {
	c := r.cause
	after := r.due.Sub(s.base)
	if !c.due.Equal(r.due) || c.depth > 0 || r.due.Sub(now) < hotPause || after < 0 ||
		uint64(after) >= 1<<(64-flagBits) {
		return sleeper{}, false
	}
	at := uint64(after)<<flagBits | uint64(r.priority)
	switch c.Reason {
	case Resynced:
		at |= resyncFlag
	case Requested:
	default:
		return sleeper{}, false
	}
	if c.of.ordered {
		at |= orderedFlag
	}
	return sleeper{key: r.key, at: at, uid: c.of.uid, version: c.of.version}, true
}

// request returns the request of a sleeper.
func (s *sleepers) request(x sleeper) request {
	r := request{key: x.key, due: s.due(x), priority: priority(x.at & (resyncFlag - 1))}
	r.cause = Cause{Reason: Requested, due: r.due, of: x.mark()}
	if x.at&resyncFlag != 0 {
		r.cause.Reason = Resynced
	}
	return r
}

func (x sleeper) mark() mark { return mark{x.uid, x.version, x.at&orderedFlag != 0} }

func (s *sleepers) due(x sleeper) time.Time { return s.base.Add(time.Duration(x.at >> flagBits)) }

// add adds a sleeper. No sleeper may have its key.
func (s *sleepers) add(x sleeper) {
	if s.n+1 > len(s.table)/4*3 {
		s.rebuild(2 * len(s.table))
	}
	if s.n == len(s.pieces)*piece {
		s.pieces = append(s.pieces, make([]sleeper, piece))
	}
	i := s.n
	s.n++
	*s.place(i) = x
	slot := s.slot(x.key)
	s.table[slot] = uint32(i) + 1
	s.up(i)
}

// first returns the sleeper with the earliest time.
func (s *sleepers) first() (x sleeper, ok bool) {
	if s.n == 0 {
		return x, false
	}
	return *s.place(0), true
}

// find returns the sleeper of a key.
func (s *sleepers) find(key kube.Key) (x sleeper, ok bool) {
	if s.n == 0 {
		return x, false
	}
	at := s.table[s.slot(key)]
	if at == 0 {
		return x, false
	}
	return *s.place(int(at) - 1), true
}

// remove removes the sleeper of a key. It returns false if there is none.
func (s *sleepers) remove(key kube.Key) (x sleeper, ok bool) {
	if s.n == 0 {
		return x, false
	}
	slot := s.slot(key)
	if s.table[slot] == 0 {
		return x, false
	}
	i, last := int(s.table[slot])-1, s.n-1
	x = *s.place(i)
	if i != last {
		s.swap(i, last)
	}
	s.free(slot)
	*s.place(last) = sleeper{}
	s.n--
	if i != last && !s.up(i) {
		s.down(i)
	}
	if room := s.n/piece + 2; len(s.pieces) > room {
		clear(s.pieces[room:])
		s.pieces = s.pieces[:room]
	}
	if len(s.table) > leastTable && s.n < len(s.table)/8 {
		s.rebuild(len(s.table) / 2)
	}
	return x, true
}

func (s *sleepers) place(i int) *sleeper { return &s.pieces[i>>pieceBits][i&(piece-1)] }

func (s *sleepers) less(i, j int) bool { return s.place(i).at < s.place(j).at }

// swap swaps two places in the heap.
func (s *sleepers) swap(i, j int) {
	x, y := s.place(i), s.place(j)
	one, other := s.slot(x.key), s.slot(y.key)
	*x, *y = *y, *x
	s.table[one], s.table[other] = uint32(j)+1, uint32(i)+1
}

// up moves the sleeper at a place up, and reports whether it has moved.
func (s *sleepers) up(i int) (moved bool) {
	for i > 0 {
		above := (i - 1) / 2
		if !s.less(i, above) {
			break
		}
		s.swap(i, above)
		i, moved = above, true
	}
	return moved
}

func (s *sleepers) down(i int) {
	for {
		below := 2*i + 1
		if below >= s.n {
			return
		}
		if right := below + 1; right < s.n && s.less(right, below) {
			below = right
		}
		if !s.less(below, i) {
			return
		}
		s.swap(i, below)
		i = below
	}
}

// hash returns the slot at which the search for a key begins.
func (s *sleepers) hash(key kube.Key) int {
	return int(maphash.Comparable(s.seed, key) & uint64(len(s.table)-1))
}

// slot returns the slot of a key, or the free one where it belongs.
func (s *sleepers) slot(key kube.Key) int {
	for slot := s.hash(key); ; slot = (slot + 1) & (len(s.table) - 1) {
		if at := s.table[slot]; at == 0 || s.place(int(at)-1).key == key {
			return slot
		}
	}
}

// free frees a slot, and moves those behind it that a search would not find any more.
func (s *sleepers) free(slot int) {
	mask := len(s.table) - 1
	for next := (slot + 1) & mask; s.table[next] != 0; next = (next + 1) & mask {
		begin := s.hash(s.place(int(s.table[next]) - 1).key)
		if (next-begin)&mask >= (next-slot)&mask {
			s.table[slot] = s.table[next]
			slot = next
		}
	}
	s.table[slot] = 0
}

// rebuild gives the table another size, a power of two.
func (s *sleepers) rebuild(size int) {
	s.table = make([]uint32, size)
	for i := range s.n {
		s.table[s.slot(s.place(i).key)] = uint32(i) + 1
	}
}
