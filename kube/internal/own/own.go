package own

import (
	"iter"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/internal/versions"
	"github.com/pintle-go/pintle/kube/internal/hamt"
	"github.com/pintle-go/pintle/kube/internal/wire"
)

// Object is a state of an object. The zero value says that there is none.
type Object struct {
	Exists  bool
	UID     types.UID
	Version string
	// Deleting: the object has a deletion timestamp.
	Deleting bool
}

// is reports that a state is of the object with a uid.
func (o Object) is(uid types.UID) bool { return o.Exists && o.UID == uid }

// End is the end of an object that the content did not have when it ended.
type End struct {
	UID  types.UID
	Last *wire.Entry // its last known state
}

// Verdict tells a store how a key changes. The zero value changes nothing.
type Verdict struct {
	// Take: the content takes the state that the call was about.
	Take bool
	// Drop: the content loses its object.
	Drop bool
	// OwnWas and OwnIs: this process wrote the object that the content has before the verdict is
	// carried out, and after that. When such an object ends, each loop learns of it.
	OwnWas, OwnIs bool
	// Ended are the objects whose ends the loops learn of, besides that of the object that the
	// content loses.
	Ended []End
}

// Mark holds the memory of a key. See the package's documentation.
type Mark struct {
	claim *claim
	doubt doubt
	dead  []dead
	// past is the version at which the store's selection had no object of the key, or only the one
	// that is in the content. Empty: unknown. States that are not later do not count.
	past string
}

// claim is a write. If it is Deleting, it is a deletion whose answer had the object as it was
// before: the object is gone, or has a deletion timestamp.
type claim struct {
	Object
	last *wire.Entry
	bare bool // see Answer
	own  bool
	seq  uint64
	// shown: the content has this very state. That matters if its version cannot be compared.
	shown bool
	// since is the number of the first write of the key that the content does not show.
	since uint64
}

type doubt struct {
	seq uint64 // zero: there is no doubt
	at  time.Time
}

// dead is an object that this process has deleted.
type dead struct {
	uid   types.UID
	told  bool   // the content or a claim had it, so its end was told
	known bool   // so its versions were known, and past is not before them
	floor string // the lane's at the deletion: a list that is as late and lacks the object is after it
	seq   uint64
	at    time.Time
}

func (m *Mark) empty() bool {
	return m.claim == nil && m.doubt.seq == 0 && len(m.dead) == 0 && m.past == ""
}

func (m *Mark) deadOf(uid types.UID) *dead {
	i := slices.IndexFunc(m.dead, func(d dead) bool { return d.uid == uid })
	if i < 0 {
		return nil
	}
	return &m.dead[i]
}

// Lane holds the versions of a list and watch.
type Lane struct {
	// Heard is the version up to which the content has everything.
	Heard string
	// Floor is the latest version that is known, by the watch or by an answer.
	Floor string
	// doubt: the outcome of very many writes is not known.
	doubt doubt
	// unnamed: the outcome of a write is not known, for which the server makes the name. It concerns
	// no read of a key, because nobody knows the key.
	unnamed doubt
}

func (l *Lane) doubts() []*doubt { return []*doubt{&l.doubt, &l.unnamed} }

// State is the memory of a store. It is never changed: each call returns another one.
type State[K comparable] struct {
	lanes  []Lane
	marks  hamt.Map[K, *Mark] // a mark is never changed
	laneOf func(K) int
	// selects: the store has a selector, so the watch also shows the end of an object that leaves it.
	selects bool
	seq     uint64
	doubts  int
	waits   []*waits[K] // of each lane
}

const (
	// maxDoubts is how many keys are asked for one by one. Above that the lane is listed.
	maxDoubts = 1000
	// Kept is how long the dead and the doubts are remembered at most.
	Kept = 10 * time.Minute
)

// New returns the state of a store with some lanes. laneOf tells which lane has a key, and selects
// whether the store has a selector.
func New[K comparable](lanes int, laneOf func(K) int, selects bool) State[K] {
	return State[K]{
		lanes: make([]Lane, lanes), laneOf: laneOf, selects: selects, waits: make([]*waits[K], lanes),
	}
}

// Lane returns a lane's versions.
func (s *State[K]) Lane(lane int) Lane { return s.lanes[lane] }

// change returns a lane of the state that is in the making. It is not inlined, because the code
// of a copy is long.
//
//go:noinline
func (s *State[K]) change(lane int) *Lane {
	s.lanes = slices.Clone(s.lanes)
	return &s.lanes[lane]
}

// Began returns the number of writes so far. An answer to a question that is sent after that has seen
// their effects, if they had any by then.
func (s *State[K]) Began() uint64 { return s.seq }

// Need is the task of a read of a key.
type Need int

const (
	Read    Need = iota // the content is right
	Wait                // the watch will show a write: wait for that, and ask if it takes long
	Ask                 // ask the server
	AskLane             // list the lane, or ask
)

// Look tells the task of a read of a key.
func (s *State[K]) Look(key K) Need {
	m, _ := s.mark(key)
	return s.need(key, &m)
}

// mark returns a copy of a key's mark, and whether there is one.
func (s *State[K]) mark(key K) (m Mark, marked bool) {
	if is, ok := s.marks.Get(key); ok {
		return *is, true
	}
	return m, false
}

func (s *State[K]) need(key K, m *Mark) Need {
	switch {
	case s.lanes[s.laneOf(key)].doubt.seq > 0:
		return AskLane
	case m.doubt.seq > 0:
		return Ask
	case m.claim != nil && !m.claim.shown:
		return Wait
	}
	return Read
}

// Unsure is a key whose content is not sure.
type Unsure[K comparable] struct {
	Key  K
	Need Need
	// Claimed: Last is the object as the answer to the latest write has it. Otherwise nothing is
	// known about the object.
	Claimed bool
	Last    *wire.Entry
}

// Known notes that the server's state of a lane was at a version.
func (s State[K]) Known(lane int, version string) State[K] {
	l := s.change(lane)
	l.Floor = versions.Later(l.Floor, version)
	return s
}

// Unsure yields the keys whose content is not sure, of the first began writes.
func (s *State[K]) Unsure(began uint64) iter.Seq[Unsure[K]] {
	return func(yield func(Unsure[K]) bool) {
		for key, m := range s.marks.All() {
			u := Unsure[K]{Key: key, Need: s.need(key, m)}
			switch {
			case u.Need == Read, u.Need == Wait && m.claim.since > began:
				continue
			case u.Need == Wait && !m.claim.Deleting && !m.claim.bare:
				u.Claimed, u.Last = true, m.claim.last
			}
			if !yield(u) {
				return
			}
		}
	}
}

// Doubtful reports that the outcome of one of the first began writes is not known, and its key is
// not remembered.
func (s *State[K]) Doubtful(began uint64) bool {
	return slices.ContainsFunc(s.lanes, func(l Lane) bool {
		return slices.ContainsFunc(l.doubts(), func(d *doubt) bool { return d.seq > 0 && d.seq <= began })
	})
}

// Remembers reports that something is remembered of any key.
func (s *State[K]) Remembers() bool { return s.marks.Len() > 0 }

// Least returns the latest known version of a key, whose content is now. An answer that is
// older is stale.
func (s *State[K]) Least(key K, now Object) string {
	m, _ := s.mark(key)
	least := versions.Later(now.Version, m.past)
	if m.claim != nil {
		least = versions.Later(least, m.claim.Version)
	}
	return least
}

// with calls f for a key and returns the state after that.
func (s State[K]) with(key K, now Object, f func(*hand)) (State[K], Verdict) {
	lane := s.laneOf(key)
	m, had := s.mark(key)
	was := m.doubt.seq > 0
	awaited, awaits := m.awaits(now, true)
	m.dead = slices.Clone(m.dead)
	h := hand{lane: s.change(lane), mark: m, now: now}
	f(&h)
	switch is := h.mark.doubt.seq > 0; {
	case is && !was:
		s.doubts++
	case was && !is:
		s.doubts--
	}
	switch empty := h.mark.empty(); {
	case !empty:
		is := h.mark
		s.marks = s.marks.With(nil, key, &is)
	case had:
		s.marks = s.marks.Without(nil, key)
	}
	if version, ok := h.mark.awaits(now, !h.out.Take && !h.out.Drop); ok && (!awaits || version != awaited) {
		s.waits = slices.Clone(s.waits)
		s.waits[lane] = s.waits[lane].with(version, key)
	}
	return s, h.out
}

// Answer is a state of an object that the server has answered.
type Answer struct {
	Object
	// Whole: the content can take the state. Otherwise only its metadata is known.
	Whole bool
	// Out: the store's selection does not have this state.
	Out bool
	// Own: the answer is to a write of this process, not to a question.
	Own  bool
	Last *wire.Entry
	// Bare: Last has the identity of the object, and neither its labels nor its owners.
	Bare bool
}

// Answered notes an answer. now is the content's object of the key. began is Began at the time
// when a question was sent; for a write it does not count.
func (s State[K]) Answered(key K, now Object, a Answer, began uint64) (State[K], Verdict) {
	if a.Own {
		s.seq++
		began = 0 // another write, whose outcome is not known, may have been done since
	}
	seq := s.seq
	return s.with(key, now, func(h *hand) {
		h.lane.Floor = versions.Later(h.lane.Floor, a.Version)
		if h.mark.doubt.seq <= began {
			h.mark.doubt = doubt{}
		}
		h.answered(a, began, seq)
	})
}

// Absent notes that the selection has no object of a key, as of a version. The answer must not be
// older than Least. If versions cannot be compared, the content must not have changed since the
// question was sent.
func (s State[K]) Absent(key K, now Object, version string, began uint64) (State[K], Verdict) {
	return s.with(key, now, func(h *hand) {
		h.lane.Floor = versions.Later(h.lane.Floor, version)
		if h.mark.doubt.seq <= began {
			h.mark.doubt = doubt{}
		}
		h.buries(version, began)
		h.absent(version, began)
	})
}

// Deleted notes that this process has deleted the object with a uid, and that it is gone.
func (s State[K]) Deleted(key K, now Object, uid types.UID, at time.Time) (State[K], Verdict) {
	if uid == "" {
		return s.Lost(key, now, at)
	}
	s.seq++
	seq := s.seq
	return s.with(key, now, func(h *hand) {
		if h.mark.deadOf(uid) != nil {
			return
		}
		d := dead{uid: uid, told: h.now.is(uid), floor: versions.Later(h.lane.Floor, h.now.Version), seq: seq, at: at}
		if c := h.mark.claim; c != nil && c.is(uid) {
			d.told, d.known = d.told || c.own, true
			h.setPast(c.Version)
			h.settle(true)
		}
		if h.now.is(uid) {
			d.known = true
			h.out.OwnWas = true
			h.drop()
			h.setPast(h.now.Version)
		}
		h.mark.dead = append(h.mark.dead, d)
		if h.now.Exists && !h.now.is(uid) {
			h.unsure()
		}
	})
}

// Deleting notes that this process has deleted an object together with others, and that the server
// has answered with the object as it was before.
func (s State[K]) Deleting(key K, now, was Object, last *wire.Entry) (State[K], Verdict) {
	s.seq++
	seq := s.seq
	return s.with(key, now, func(h *hand) {
		h.lane.Floor = versions.Later(h.lane.Floor, was.Version)
		c := h.mark.claim
		switch {
		case h.mark.deadOf(was.UID) != nil, versions.Reached(h.mark.past, was.Version), // it is gone
			!h.now.Exists && versions.Numeric(was.Version) && versions.Reached(h.lane.Heard, was.Version),
			h.now.Exists && !h.now.is(was.UID) && !versions.Older(h.now.Version, was.Version),
			c != nil && !c.is(was.UID) && !versions.Older(c.Version, was.Version),
			h.now.is(was.UID) && h.now.Deleting: // it is shown already
			return
		}
		was.Deleting = true
		if c != nil && c.is(was.UID) && versions.Older(was.Version, c.Version) {
			was.Version = c.Version
		}
		if c != nil && !c.is(was.UID) {
			h.settle(true)
		}
		h.claim(was, last, true, seq)
	})
}

// Lost notes a write of a key whose outcome is not known.
func (s State[K]) Lost(key K, now Object, at time.Time) (State[K], Verdict) {
	s.seq++
	seq := s.seq
	if s.doubts >= maxDoubts {
		s.change(s.laneOf(key)).doubt = doubt{seq, at}
		return s, Verdict{}
	}
	return s.with(key, now, func(h *hand) { h.mark.doubt = doubt{seq, at} })
}

// LostIn notes a write in a lane whose outcome is not known, and for which the server makes the name.
func (s State[K]) LostIn(lane int, at time.Time) State[K] {
	s.seq++
	s.change(lane).unnamed = doubt{s.seq, at}
	return s
}

// LostAll notes a write of any keys of a lane whose outcome is not known.
func (s State[K]) LostAll(lane int, at time.Time) State[K] {
	s.seq++
	s.change(lane).doubt = doubt{s.seq, at}
	return s
}

// Event notes that the watch of a key's lane shows a state of an object or, if deleted is true, its
// end. The caller calls Progress with the version afterwards.
func (s State[K]) Event(key K, now, is Object, deleted bool) (State[K], Verdict) {
	if _, marked := s.marks.Get(key); !marked { // by far the most events
		h := hand{now: now}
		h.event(is, deleted, s.selects)
		return s, h.out
	}
	return s.with(key, now, func(h *hand) { h.event(is, deleted, s.selects) })
}

// Progress notes that the content of a lane has everything up to a version. now returns the content
// of a key. It calls each with the verdicts about keys, which neither take nor drop anything.
func (s State[K]) Progress(
	lane int, version string, now func(K) Object, each func(K, Verdict),
) State[K] {
	if version == "" || versions.Older(version, s.lanes[lane].Heard) {
		return s
	}
	l := s.change(lane)
	l.Heard, l.Floor = version, versions.Later(l.Floor, version)
	reached, ok := versions.Number(version)
	for first := s.waits[lane]; ok && first != nil && first.version <= reached; first = s.waits[lane] {
		s.waits = slices.Clone(s.waits)
		s.waits[lane] = first.rest()
		object := now(first.key)
		m, _ := s.mark(first.key)
		if versions.Reached(version, m.past) || m.claim.ends(version, object) {
			var v Verdict
			s, v = s.with(first.key, object, func(h *hand) { h.caughtUp(version) })
			each(first.key, v)
		}
	}
	return s
}

// Tick ends the memories of a lane that are old enough. Its watch must have told everything until
// lately: what it tells later is of after them.
func (s State[K]) Tick(lane int, at time.Time) State[K] {
	for key, m := range s.marks.All() {
		if s.laneOf(key) != lane {
			continue
		}
		old := func(d dead) bool { return at.Sub(d.at) >= Kept }
		if slices.ContainsFunc(m.dead, old) || m.doubt.seq > 0 && at.Sub(m.doubt.at) >= Kept {
			s, _ = s.with(key, Object{}, func(h *hand) {
				h.mark.dead = slices.DeleteFunc(h.mark.dead, old)
				if at.Sub(h.mark.doubt.at) >= Kept {
					h.mark.doubt = doubt{}
				}
			})
		}
	}
	for _, d := range s.change(lane).doubts() {
		if at.Sub(d.at) >= Kept {
			*d = doubt{}
		}
	}
	return s
}
