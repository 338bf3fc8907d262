package hamt

import "iter"

// Change is a key whose value in one map differs from its value in a second map.
type Change[K comparable, V any] struct {
	Key K
	// Was is the value in the first map, Is the value in the second one. Nil: the map has
	// no value. Both must not be written to.
	Was, Is *V
}

// Diff yields the keys whose values in two maps differ, in no order. It skips the shared
// parts of the maps, so its cost depends on the number of changes between the maps.
func Diff[K, V comparable](was, is Map[K, V]) iter.Seq[Change[K, V]] {
	return func(yield func(Change[K, V]) bool) {
		diff(was.root, is.root, 0, yield)
	}
}

// side is the content of one of two nodes at a place: an entry, a child or nothing.
type side[K, V comparable] struct {
	entry *entry[K, V]
	child *node[K, V]
}

func (n *node[K, V]) at(bit uint32) (entry *entry[K, V], child *node[K, V]) {
	switch {
	case n == nil:
	case n.has&bit != 0:
		entry = &n.entries[before(n.has, bit)]
	case n.goes&bit != 0:
		child = n.children[before(n.goes, bit)]
	}
	return entry, child
}

func diff[K, V comparable](was, is *node[K, V], shift uint, yield func(Change[K, V]) bool) bool {
	switch {
	case was == is:
		return true
	case was == nil:
		return is.all(func(e *entry[K, V]) bool { return yield(Change[K, V]{e.key, nil, &e.value}) })
	case is == nil:
		return was.all(func(e *entry[K, V]) bool { return yield(Change[K, V]{e.key, &e.value, nil}) })
	case shift >= hashBits:
		return diffEqual(was, is, yield)
	}
	return places(was.has|was.goes|is.has|is.goes, func(bit uint32) bool {
		var a, b side[K, V]
		a.entry, a.child = was.at(bit)
		b.entry, b.child = is.at(bit)
		switch {
		case a.entry == nil && b.entry == nil:
			return diff(a.child, b.child, shift+levelBits, yield)
		case a.child == nil && b.child == nil:
			return diffEntries(a.entry, b.entry, yield)
		case a.entry != nil:
			return diffSplit(a.entry, b.child, yield)
		}
		return diffMerged(a.child, b.entry, yield)
	})
}

// diffEntries compares two entries, of which one may be nil.
func diffEntries[K, V comparable](was, is *entry[K, V], yield func(Change[K, V]) bool) bool {
	switch {
	case was == nil:
		return yield(Change[K, V]{is.key, nil, &is.value})
	case is == nil:
		return yield(Change[K, V]{was.key, &was.value, nil})
	case was.key != is.key:
		return yield(Change[K, V]{was.key, &was.value, nil}) && yield(Change[K, V]{is.key, nil, &is.value})
	case was.value != is.value:
		return yield(Change[K, V]{was.key, &was.value, &is.value})
	}
	return true
}

// diffSplit compares an entry with the node that replaced it.
func diffSplit[K, V comparable](was *entry[K, V], is *node[K, V], yield func(Change[K, V]) bool) bool {
	kept := false
	more := is.all(func(e *entry[K, V]) bool {
		if e.key == was.key {
			kept = true
			return diffEntries(was, e, yield)
		}
		return diffEntries(nil, e, yield)
	})
	return more && (kept || diffEntries(was, nil, yield))
}

// diffMerged compares a node with the entry that replaced it.
func diffMerged[K, V comparable](was *node[K, V], is *entry[K, V], yield func(Change[K, V]) bool) bool {
	kept := false
	more := was.all(func(e *entry[K, V]) bool {
		if e.key == is.key {
			kept = true
			return diffEntries(e, is, yield)
		}
		return diffEntries(e, nil, yield)
	})
	return more && (kept || diffEntries(nil, is, yield))
}

// diffEqual compares the entries of two nodes in which all hashes are equal.
func diffEqual[K, V comparable](was, is *node[K, V], yield func(Change[K, V]) bool) bool {
	for i := range was.entries {
		e := &was.entries[i]
		if !diffEntries(e, is.find(0, hashBits, e.key), yield) {
			return false
		}
	}
	for i := range is.entries {
		e := &is.entries[i]
		if was.find(0, hashBits, e.key) == nil && !diffEntries(nil, e, yield) {
			return false
		}
	}
	return true
}
