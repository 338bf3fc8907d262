package own

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// maxTold is how many ends are remembered. Above that the earliest is forgotten, and may be told again.
const maxTold = 1000

// UnderWay are the writes under way. The watch may show a write's object, and the object's end, before
// the answer comes. So each loop learns of the ends of its key at once, and the answer tells none of
// them again. It is never changed, and nil if there are none.
type UnderWay struct {
	writes []writing // the earliest first
	told   []told    // the ends that were told meanwhile
	begun  uint64    // the number of the latest write
}

type writing struct {
	n    uint64
	lane int
	key  any // nil: the server makes the name, so the object may have any key of the lane
}

// told is an end that was told when n writes had begun.
type told struct {
	uid types.UID
	n   uint64
}

// Begin notes that a write begins of a key in a lane, or of nil if the server makes the name. It also
// returns the write's number.
func (u *UnderWay) Begin(lane int, key any) (*UnderWay, uint64) {
	var is UnderWay
	if u != nil {
		is = *u
	}
	is.begun++
	is.writes = append(slices.Clip(is.writes), writing{is.begun, lane, key})
	return &is, is.begun
}

// Return notes that a write has returned, after its answer or its loss was noted.
func (u *UnderWay) Return(n uint64) *UnderWay {
	is := &UnderWay{begun: u.begun}
	for _, w := range u.writes {
		if w.n != n {
			is.writes = append(is.writes, w)
		}
	}
	if len(is.writes) == 0 {
		return nil
	}
	for _, t := range u.told {
		if is.writes[0].n <= t.n { // its answer may be of the object
			is.tell(t)
		}
	}
	return is
}

//go:noinline
func (u *UnderWay) tell(t told) {
	if len(u.told) == maxTold {
		u.told = u.told[1:]
	}
	u.told = append(u.told, t)
}

// ends notes the ends that a verdict tells, and takes those out that were told before.
func (u *UnderWay) ends(lane int, key any, h *hand) *UnderWay {
	ended, lost := h.out.Ended, h.now.Exists && (h.out.Drop || h.out.Take && !h.now.is(h.took))
	if u == nil || len(u.told) == 0 && !lost && len(ended) == 0 {
		return u
	}
	is := &UnderWay{writes: u.writes, begun: u.begun}
	concerned := false
	for _, w := range u.writes {
		concerned = concerned || w.lane == lane && (w.key == nil || w.key == key)
	}
	for _, t := range u.told {
		if !h.out.Take || t.uid != h.took { // otherwise it was outside of the selection, and is back
			is.tell(t)
		}
	}
	h.out.Ended = nil
	for _, e := range ended {
		if u.has(e.UID) {
			continue
		}
		h.out.Ended = append(h.out.Ended, e)
		if concerned {
			is.tell(told{e.UID, u.begun})
		}
	}
	if concerned && lost {
		h.out.OwnWas = true
		is.tell(told{h.now.UID, u.begun})
	}
	return is
}

func (u *UnderWay) has(uid types.UID) bool {
	for _, t := range u.told {
		if t.uid == uid {
			return true
		}
	}
	return false
}
