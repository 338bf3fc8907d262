package own

import (
	"github.com/pintle-go/pintle/internal/versions"
	"github.com/pintle-go/pintle/kube/internal/wire"
)

// List is a complete list of a lane, of the objects or of their metadata.
type List struct {
	Lane    int
	Version string
	// Began and Floor are [State.Began] and the lane's floor at the time when the list was asked
	// for. Answers that came since may be later than the list.
	Began uint64
	Floor string
	// Whole: the content can take the listed states. Otherwise only their metadata is known.
	Whole bool
	// Restored: the server's storage was restored, so its versions have gone back.
	Restored bool
}

// Stale reports that a list is older than what was known when it was asked for, so that it must be
// asked for again.
func (l List) Stale() bool { return !l.Restored && versions.Older(l.Version, l.Floor) }

// Listed notes the state of a key in a list: that of an object, or none. last is that state. It is
// called for each key whose listed state is not the one in the content, and for each that is
// marked ([State.Marked]).
func (s State[K]) Listed(l List, key K, now, is Object, last *wire.Entry) (State[K], Verdict) {
	seq := s.seq
	return s.with(key, now, func(h *hand) {
		if h.mark.doubt.seq <= l.Began {
			h.mark.doubt = doubt{}
		}
		if l.Restored {
			h.restored(l, is)
			return
		}
		if is.Exists && h.mark.deadOf(is.UID) != nil {
			is = Object{} // only a list of before the deletion has it
		} else {
			h.buries(l.Version, l.Began)
		}
		if versions.Older(l.Version, h.lane.Heard) {
			is = h.now // the watch has come further meanwhile
		}
		h.listed(l, is, last, seq)
	})
}

func (h *hand) listed(l List, is Object, last *wire.Entry, seq uint64) {
	// A list that has come as far as a state, and shows an earlier one, is of a server whose storage was
	// restored and whose versions went on.
	behind := func(version string) bool { return !versions.Reached(l.Version, version) }
	if c := h.mark.claim; c != nil && c.over(l.Version, l.Began) {
		if is.is(c.UID) && !l.Whole && h.now != is { // the watch will show it, as that of an own write
			other := *c
			other.Object, other.last, other.shown = is, last, false
			h.mark.claim = &other
			return
		}
		h.settle(!is.is(c.UID))
	}
	switch {
	case !is.Exists:
		h.absent(l.Version, l.Began)
	case behind(h.mark.past) && versions.Reached(h.mark.past, is.Version),
		behind(h.now.Version) && versions.Older(is.Version, h.now.Version):
	case h.mark.claim != nil && !h.mark.claim.is(is.UID) && versions.Older(is.Version, h.mark.claim.Version):
	case h.now.is(is.UID) && h.now.Version == is.Version && is.Version != "":
	case l.Whole:
		h.take()
		h.mark.past = ""
	case h.mark.claim == nil:
		h.claim(is, last, false, seq)
		h.mark.claim.since = 0 // each read waits for it, however long ago the read began
	}
}

// restored takes a listed state as it is.
func (h *hand) restored(l List, is Object) {
	if c := h.mark.claim; c != nil && c.seq <= l.Began {
		h.settle(!is.is(c.UID))
	}
	h.mark.past, h.mark.dead = "", nil
	if is.Exists {
		h.take()
	} else {
		h.drop()
	}
}

// Marked returns the keys of a lane that something is remembered of.
func (s *State[K]) Marked(lane int) (keys []K) {
	for key := range s.marks.All() {
		if s.laneOf(key) == lane {
			keys = append(keys, key)
		}
	}
	return keys
}

// ListEnds notes that all keys of a list have been noted. now returns the content of a key after
// that; each is called as by Progress.
func (s State[K]) ListEnds(l List, now func(K) Object, each func(K, Verdict)) State[K] {
	lane := s.change(l.Lane)
	for _, d := range lane.doubts() {
		if d.seq <= l.Began {
			*d = doubt{}
		}
	}
	if l.Restored {
		lane.Heard, lane.Floor = "", ""
	}
	if !l.Whole {
		lane.Floor = versions.Later(lane.Floor, l.Version)
		return s
	}
	return s.Progress(l.Lane, l.Version, now, each)
}
