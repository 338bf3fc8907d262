// Package hamt has an immutable map: a change makes another map, which shares all but a
// few nodes with the map that it was made from. A reader needs no lock. Two maps are
// compared by their differing nodes: shared nodes are skipped.
//
// [Map] is a hash array mapped trie in the form of CHAMP (Steindorfer and Vinju, OOPSLA
// 2015): each level takes five bits of the key's hash, and a node keeps its entries and
// its children in two arrays without gaps. A [Map] with the same keys has the same nodes,
// for any order of changes, unless the hashes of keys are equal.
//
// [Edit] builds many changes into one map without a copy for each.
package hamt

import (
	"hash/maphash"
	"iter"
	"math"
	"math/bits"
)

// Map is an immutable map. The zero value is empty.
type Map[K comparable, V any] struct {
	root *node[K, V]
	n    int
}

// Edit marks the nodes that a series of changes has made, so that later changes of the
// series may write to them. The maps between two changes are lost then: only the last map
// of a series may be kept. An Edit must not be used once that map is shared. One Edit may
// serve for several maps at once, in one goroutine.
type Edit struct{ _ byte } // two Edits must have two addresses

// node is a node of the trie. Below the last bits of the hash, a node has only entries of
// keys whose hashes are equal, and no bits are set.
type node[K comparable, V any] struct {
	edit *Edit // the edit that may write to the node
	// has and goes have a bit for each place that holds an entry or a child.
	has, goes uint32
	entries   []entry[K, V]
	children  []*node[K, V]
}

// entry has the value first: a struct that ends in an empty field would be larger.
type entry[K comparable, V any] struct {
	value V
	key   K
}

const (
	levelBits = 5
	hashBits  = 64
)

var (
	seed = maphash.MakeSeed()
	// hashMask is narrowed by tests, so that hashes are equal.
	hashMask uint64 = math.MaxUint64
)

func hashOf[K comparable](key K) uint64 { return maphash.Comparable(seed, key) & hashMask }

// placeOf returns the bit of a hash's place at a level.
func placeOf(hash uint64, shift uint) uint32 { return 1 << (hash >> shift & (1<<levelBits - 1)) }

// before counts the bits below a bit.
func before(bitmap, bit uint32) int { return bits.OnesCount32(bitmap & (bit - 1)) }

// Len returns the number of entries.
func (m Map[K, V]) Len() int { return m.n }

// Get returns the value of a key, and whether the map has the key.
func (m Map[K, V]) Get(key K) (value V, ok bool) {
	if m.root == nil {
		return value, false
	}
	if found := m.root.find(hashOf(key), 0, key); found != nil {
		return found.value, true
	}
	return value, false
}

func (n *node[K, V]) find(hash uint64, shift uint, key K) *entry[K, V] {
	for ; shift < hashBits; shift += levelBits {
		bit := placeOf(hash, shift)
		switch {
		case n.has&bit != 0:
			if e := &n.entries[before(n.has, bit)]; e.key == key {
				return e
			}
			return nil
		case n.goes&bit == 0:
			return nil
		}
		n = n.children[before(n.goes, bit)]
	}
	for i := range n.entries {
		if n.entries[i].key == key {
			return &n.entries[i]
		}
	}
	return nil
}

// All yields all entries, in no order.
func (m Map[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if m.root != nil {
			m.root.all(func(e *entry[K, V]) bool { return yield(e.key, e.value) })
		}
	}
}

func (n *node[K, V]) all(yield func(*entry[K, V]) bool) bool {
	for i := range n.entries {
		if !yield(&n.entries[i]) {
			return false
		}
	}
	for _, child := range n.children {
		if !child.all(yield) {
			return false
		}
	}
	return true
}
