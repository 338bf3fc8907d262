package hamt

import "math/bits"

// A Builder makes maps of entries that are known beforehand. It makes each node once and
// in its final size, so that a map costs a fraction of a series of changes. The zero
// value is ready for use.
type Builder[K comparable, V any] struct {
	list, spare []hashed[K, V]
}

// hashed is an entry with its key's hash.
type hashed[K comparable, V any] struct {
	hash uint64
	entry[K, V]
}

// Add adds an entry to the next map. That map must not have an entry with the key yet.
func (b *Builder[K, V]) Add(key K, value V) {
	b.list = append(b.list, hashed[K, V]{hashOf(key), entry[K, V]{value, key}})
}

// Map returns the map of the entries that were added since the last map. Changes with the
// same edit may write to its nodes.
func (b *Builder[K, V]) Map(edit *Edit) Map[K, V] {
	n := len(b.list)
	if n == 0 {
		return Map[K, V]{}
	}
	if len(b.spare) < n {
		b.spare = make([]hashed[K, V], cap(b.list))
	}
	m := Map[K, V]{build(edit, b.list, b.spare[:n], 0), n}
	b.list = b.list[:0]
	return m
}

// build returns the node of a list, whose hashes are equal up to a level. It uses up both
// the list and a spare one of the same length.
func build[K comparable, V any](edit *Edit, list, spare []hashed[K, V], shift uint) *node[K, V] {
	n := &node[K, V]{edit: edit}
	if shift >= hashBits {
		n.entries = make([]entry[K, V], len(list))
		for i := range list {
			n.entries[i] = list[i].entry
		}
		return n
	}
	var counts, next [1 << levelBits]int
	for i := range list {
		place := bits.TrailingZeros32(placeOf(list[i].hash, shift))
		switch counts[place]++; counts[place] {
		case 1:
			n.has |= 1 << place
		case 2:
			n.has &^= 1 << place
			n.goes |= 1 << place
		}
	}
	at := 0
	places(n.has|n.goes, func(bit uint32) bool {
		place := bits.TrailingZeros32(bit)
		next[place] = at
		at += counts[place]
		return true
	})
	for i := range list {
		place := bits.TrailingZeros32(placeOf(list[i].hash, shift))
		spare[next[place]] = list[i]
		next[place]++
	}
	if n.has != 0 {
		n.entries = make([]entry[K, V], 0, bits.OnesCount32(n.has))
	}
	if n.goes != 0 {
		n.children = make([]*node[K, V], 0, bits.OnesCount32(n.goes))
	}
	places(n.has|n.goes, func(bit uint32) bool {
		place := bits.TrailingZeros32(bit)
		from, to := next[place]-counts[place], next[place]
		if n.has&bit != 0 {
			n.entries = append(n.entries, spare[from].entry)
		} else {
			n.children = append(n.children, build(edit, spare[from:to], list[from:to], shift+levelBits))
		}
		return true
	})
	return n
}
