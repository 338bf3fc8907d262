package own

import "github.com/pintle-go/pintle/internal/versions"

// waits holds keys by the versions that their marks wait for, the earliest first: a leftist heap,
// which is never changed. A key stays in it although its mark has ended or waits for another version
// since; it is passed over then. So a lane that has come further costs as much as the keys that
// waited for that, however many others wait.
type waits[K any] struct {
	version     uint64
	key         K
	left, right *waits[K]
	rank        int // the length of the path to the right
}

// with returns the heap with one more key.
func (w *waits[K]) with(version uint64, key K) *waits[K] {
	return w.and(&waits[K]{version: version, key: key, rank: 1})
}

// rest returns the heap without its first key.
func (w *waits[K]) rest() *waits[K] { return w.left.and(w.right) }

// and returns the heap of the keys of two.
func (w *waits[K]) and(other *waits[K]) *waits[K] {
	switch {
	case w == nil:
		return other
	case other == nil:
		return w
	case other.version < w.version:
		w, other = other, w
	}
	is := *w
	is.right = w.right.and(other)
	if is.left.length() < is.right.length() {
		is.left, is.right = is.right, is.left
	}
	is.rank = is.right.length() + 1
	return &is
}

func (w *waits[K]) length() int {
	if w == nil {
		return 0
	}
	return w.rank
}

// awaits returns the version at which the content has everything that a part of a mark waits for. It
// returns false if there is none. A claim of an object that is being deleted, and that the content
// has, waits for the object's end. Kept says that the content keeps the object that it has.
func (m *Mark) awaits(now Object, kept bool) (version uint64, ok bool) {
	if version, ok = versions.Number(m.past); ok {
		return version, true // the claim is later
	}
	c := m.claim
	if c == nil || c.Deleting && kept && now.is(c.UID) {
		return 0, false
	}
	return versions.Number(c.Version)
}
