package hamt

import (
	"math/bits"
	"slices"
)

// With returns the map with a value for a key. Without an edit, m stays as it is.
func (m Map[K, V]) With(edit *Edit, key K, value V) Map[K, V] {
	if m.root == nil {
		m.root = &node[K, V]{edit: edit}
	}
	var added bool
	m.root, added = m.root.with(edit, hashOf(key), 0, entry[K, V]{value, key})
	if added {
		m.n++
	}
	return m
}

// Without returns the map without a key. Without an edit, m stays as it is.
func (m Map[K, V]) Without(edit *Edit, key K) Map[K, V] {
	hash := hashOf(key)
	if m.root == nil || m.root.find(hash, 0, key) == nil {
		return m
	}
	m.n--
	m.root = m.root.without(edit, hash, 0, key)
	if m.n == 0 {
		m.root = nil
	}
	return m
}

// mine returns a node that may be written to.
//
//go:noinline
func (n *node[K, V]) mine(edit *Edit) *node[K, V] {
	if edit != nil && n.edit == edit {
		return n
	}
	return &node[K, V]{edit, n.has, n.goes, slices.Clone(n.entries), slices.Clone(n.children)}
}

// with returns the node with an entry, and whether the entry's key is not in the node
// yet.
func (n *node[K, V]) with(edit *Edit, hash uint64, shift uint, e entry[K, V]) (*node[K, V], bool) {
	if shift >= hashBits {
		return n.withEqual(edit, e)
	}
	bit := placeOf(hash, shift)
	switch {
	case n.has&bit != 0:
		i := before(n.has, bit)
		if n.entries[i].key == e.key {
			n = n.mine(edit)
			n.entries[i].value = e.value // the old key stays, because its memory is shared
			return n, false
		}
		child := pair(edit, shift+levelBits, n.entries[i], e, hash)
		return &node[K, V]{
			edit: edit, has: n.has &^ bit, goes: n.goes | bit,
			entries: cut(n.entries, i), children: put(n.children, before(n.goes, bit), child),
		}, true
	case n.goes&bit != 0:
		i := before(n.goes, bit)
		child, added := n.children[i].with(edit, hash, shift+levelBits, e)
		if child != n.children[i] {
			n = n.mine(edit)
			n.children[i] = child
		}
		return n, added
	}
	entries := put(n.entries, before(n.has, bit), e)
	if edit != nil && n.edit == edit {
		n.has, n.entries = n.has|bit, entries
		return n, true
	}
	return &node[K, V]{edit, n.has | bit, n.goes, entries, slices.Clone(n.children)}, true
}

// withEqual is with for a node in which all hashes are equal.
func (n *node[K, V]) withEqual(edit *Edit, e entry[K, V]) (*node[K, V], bool) {
	for i := range n.entries {
		if n.entries[i].key == e.key {
			n = n.mine(edit)
			n.entries[i].value = e.value
			return n, false
		}
	}
	return &node[K, V]{edit: edit, entries: put(n.entries, len(n.entries), e)}, true
}

// pair returns a node of two entries whose hashes are equal up to a level.
func pair[K comparable, V any](edit *Edit, shift uint, a, b entry[K, V], hashB uint64) *node[K, V] {
	if shift >= hashBits {
		return &node[K, V]{edit: edit, entries: []entry[K, V]{a, b}}
	}
	hashA := hashOf(a.key)
	bitA, bitB := placeOf(hashA, shift), placeOf(hashB, shift)
	switch {
	case bitA == bitB:
		child := pair(edit, shift+levelBits, a, b, hashB)
		return &node[K, V]{edit: edit, goes: bitA, children: []*node[K, V]{child}}
	case bitA > bitB:
		a, b = b, a
	}
	return &node[K, V]{edit: edit, has: bitA | bitB, entries: []entry[K, V]{a, b}}
}

// without returns the node without a key that it has. If a child is left with one entry
// and nothing else, its parent takes over the entry, so that the nodes depend only
// on the keys.
func (n *node[K, V]) without(edit *Edit, hash uint64, shift uint, key K) *node[K, V] {
	if shift >= hashBits {
		i := slices.IndexFunc(n.entries, func(e entry[K, V]) bool { return e.key == key })
		return &node[K, V]{edit: edit, entries: cut(n.entries, i)}
	}
	bit := placeOf(hash, shift)
	if n.has&bit != 0 {
		entries := cut(n.entries, before(n.has, bit))
		return &node[K, V]{edit, n.has &^ bit, n.goes, entries, slices.Clone(n.children)}
	}
	i := before(n.goes, bit)
	child := n.children[i].without(edit, hash, shift+levelBits, key)
	if len(child.children) == 0 && len(child.entries) == 1 {
		entries := put(n.entries, before(n.has, bit), child.entries[0])
		return &node[K, V]{edit, n.has | bit, n.goes &^ bit, entries, cut(n.children, i)}
	}
	if child != n.children[i] {
		n = n.mine(edit)
		n.children[i] = child
	}
	return n
}

// put returns a copy of a list with an element at a place. The copy has no spare room:
// most lists never become longer. It is not inlined, as cut and mine are not: each map of
// other types has its own code.
//
//go:noinline
func put[E any](list []E, at int, e E) []E {
	longer := make([]E, len(list)+1)
	copy(longer, list[:at])
	longer[at] = e
	copy(longer[at+1:], list[at:])
	return longer
}

// cut returns a copy of a list without an element.
//
//go:noinline
func cut[E any](list []E, at int) []E {
	if len(list) == 1 {
		return nil
	}
	shorter := make([]E, len(list)-1)
	copy(shorter, list[:at])
	copy(shorter[at:], list[at+1:])
	return shorter
}

// places yields the bits that are set, lowest first.
func places(bitmap uint32, yield func(bit uint32) bool) bool {
	for ; bitmap != 0; bitmap &= bitmap - 1 {
		if !yield(1 << bits.TrailingZeros32(bitmap)) {
			return false
		}
	}
	return true
}
