package controller

import (
	"fmt"
	"hash/maphash"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/pintle-go/pintle/kube"
)

// A hot loop is a key whose turns cause its next turn. There are three ways: the
// reconcile writes a change each time, another key or another program answers each write,
// or the reconcile asks for itself at once. A key with much real work has as many turns.
// This tells the two apart: while the key rests, a loop rests too, and real work goes on.
// So a key that has had many turns in a row without a pause gets pauses, each twice as
// long as the one before. If changes come during most of a pause, the world moves by
// itself, and the key has turns without pauses again. If a key's pauses are still up to
// the last, the key is in a hot loop. The loop is reported, and the pauses stay.
//
// One kind of loop goes on while a key rests: somebody sets, of its own accord, a field
// that the reconcile puts back. This loop has a sign of its own: the reconcile writes the
// same value into a field several times in a row, and each time that is a change.

const (
	// promptly is how soon after a turn a change must come to belong to a loop.
	promptly = 250 * time.Millisecond
	// atOnce is the same for the reconcile's own requests. A request for a longer time is
	// meant as it is.
	atOnce = 20 * time.Millisecond
	// freeTurns are the turns in a row that need no pause. Some objects rightly reach
	// their state in a few steps.
	freeTurns = 8
	// movingTurns are the least free turns after a pause in which the world moved, and
	// maxFreeTurns the most.
	movingTurns  = 64
	maxFreeTurns = 4096
	// firstPause is the first pause. Each further pause is twice as long. stillPauses is
	// how many pauses in a row in which the world does not move show a hot loop. The last
	// of them takes 1.6 s.
	firstPause  = 25 * time.Millisecond
	stillPauses = 7
	// judgedPause is the shortest pause that can show that the world moves. In a shorter
	// pause the answers to the last turn may still be coming in.
	judgedPause = 200 * time.Millisecond
	// movingParts are how many eighths of a pause must see a change for the world to move
	// by itself. A program that answers the last turn once fills two at most, and a third
	// if it pauses too.
	movingParts = 4
	// hotPause is the shortest pause of a hot loop, and hotPauseMax the longest. In
	// between, the pause is a sixtieth of the time for which the loop has lasted.
	hotPause    = time.Second
	hotPauseMax = 30 * time.Second
	// hotAgain is how often a hot loop that does not end is reported.
	hotAgain = 5 * time.Minute
	// calm is how long nothing must happen after a pause before the loop is over.
	calm = 5 * time.Second
	// undoneTurns are how often in a row a reconcile must have written the same value
	// before the field counts as undone by others. undoneHot is the number of times that
	// makes a hot loop, however long the others pause in between.
	undoneTurns = 3
	undoneHot   = 10
)

// loop holds the facts about consecutive turns of a key.
type loop struct {
	turns int       // in a row, each promptly after the one before
	free  int       // how many turns need no pause, if more than freeTurns
	still int       // pauses in a row in which the world did not move
	from  time.Time // start of the pause, if there is one
	until time.Time // zero: there is no pause
	parts uint8     // the eighths of the pause in which changes came
	hot   time.Time // start of the hot loop, zero if there is none
	said  time.Time // when it was last reported
	facts *facts    // nil until the loop is looked at
}

// loops reports that causes may belong to a loop.
func loops(cs *causes) bool {
	for _, c := range cs.list {
		if c.Reason == Listed {
			return false
		}
	}
	return len(cs.list) > 0
}

// lasts reports that the loop of a key without turns must still be remembered.
func (l *loop) lasts(since time.Duration) bool { return !l.said.IsZero() && since < hotAgain }

// pause returns the length of the next pause.
func (l *loop) pause(now time.Time) time.Duration {
	if l.hot.IsZero() {
		return firstPause << min(l.still, stillPauses-1)
	}
	return min(max(now.Sub(l.hot)/60, hotPause), hotPauseMax)
}

// follows reports that a turn follows the last one so soon that both may belong to a
// loop.
func (h *history) follows(it *item, now time.Time) bool {
	limit := atOnce
	for _, c := range it.causes.list {
		switch c.Reason {
		case Listed:
			return false
		case Changed, Triggered:
			limit = promptly
		}
	}
	if l := h.loop; !l.hot.IsZero() && limit == promptly {
		limit = l.pause(now)
	}
	return it.due.Before(h.last.Add(limit))
}

// rest returns the time until which the key must pause, zero if it need not.
func (h *history) rest(it *item, now time.Time) time.Time {
	l := h.loop
	if l == nil {
		return time.Time{}
	}
	if l.until.IsZero() {
		if l.hot.IsZero() && l.turns < max(l.free, freeTurns) || !h.follows(it, now) {
			return time.Time{}
		}
		l.from, l.until, l.parts = h.last, h.last.Add(l.pause(now)), 0
	}
	if !now.Before(l.until) || l.facts != nil && l.facts.fresh {
		return time.Time{} // a change that has nothing to do with the loop is not delayed
	}
	l.parts |= 1 << (8 * now.Sub(l.from) / l.until.Sub(l.from))
	return l.until
}

// begin notes that a turn begins. It returns the hot loop to report, nil if there is
// none.
func (h *history) begin(it *item, now time.Time) *hotLoop {
	l := h.loop
	if l == nil {
		return nil
	}
	pause, over := l.until.Sub(l.from), !l.until.IsZero() && !now.Before(l.until)
	undone := 0
	if l.facts != nil {
		undone = l.facts.learn(h.writes)
	}
	switch {
	case !l.until.IsZero() || h.follows(it, now):
		l.turns++
	case now.Sub(h.last) > calm+pause && now.Sub(h.last) > 2*l.pause(now):
		*l = loop{said: l.said} // the loop is over
	}
	l.until = time.Time{}
	switch moved := pause >= judgedPause && bits.OnesCount8(l.parts) >= movingParts; {
	case !over:
	case moved && undone < undoneTurns:
		l.free = min(max(movingTurns, 2*l.free), maxFreeTurns)
		l.turns, l.still, l.hot = 0, 0, time.Time{}
	default:
		l.still++
	}
	if l.hot.IsZero() && (l.still >= stillPauses || undone >= undoneHot) {
		l.hot = now
	}
	if l.hot.IsZero() || !l.said.IsZero() && now.Sub(l.said) < hotAgain {
		return nil
	}
	l.said = now
	return l.facts.report(&it.causes)
}

// see looks at a change that came for the key. A look decodes the object, so see looks
// only at changes that may belong to a loop.
func (l *loop) see(c Cause, now time.Time) {
	if c.Reason != Changed || l.turns < freeTurns/2 && l.hot.IsZero() {
		return
	}
	if l.facts == nil {
		l.facts = &facts{seed: maphash.MakeSeed(), began: now, fields: make(map[fieldOf]*looped)}
	}
	l.facts.see(c.Change, now)
}

// facts are the facts about the changes in a loop.
type facts struct {
	seed   maphash.Seed
	began  time.Time
	spent  time.Duration // in looking at changes
	fields map[fieldOf]*looped
	steps  []step // since the last turn began
	turn   int    // counts turns
	// fresh is true if a field has changed since the last turn began that had not changed
	// before in the loop.
	fresh bool
}

// fieldOf is a field of an object.
type fieldOf struct {
	kind  string
	key   kube.Key
	field string // "(added)" or "(deleted)" if the whole object was
}

// looped holds the facts about a field in a loop.
type looped struct {
	change kube.Change // the last one
	value  uint64      // a digest of the reconcile's last value
	same   int         // how often in a row the reconcile wrote that value
	turn   int         // the turn in which it did
	turns  int         // the number of turns between which the field changed
	latest int         // the last of them
}

// step is a change that was looked at.
type step struct {
	change kube.Change
	fields []fieldOf
	values []uint64 // digests
}

const (
	stepsKept  = 16 // between two turns, to tell the reconcile's own from others'
	fieldsKept = 32 // in a loop; further fields are not kept
)

// see notes the fields that a change has changed.
func (f *facts) see(c kube.Change, now time.Time) {
	if f.spent > 20*time.Millisecond+now.Sub(f.began)/10 {
		return // more looks would delay the other keys
	}
	start := time.Now()
	s := step{change: c}
	note := func(field string, value any) {
		at := fieldOf{c.Kind(), c.Key, field}
		s.fields = append(s.fields, at)
		s.values = append(s.values, maphash.String(f.seed, fmt.Sprint(value)))
		if f.fields[at] == nil && len(f.fields) < fieldsKept {
			f.fresh = true
		}
	}
	var diff []kube.FieldChange
	err := protect(func() (err error) { diff, err = c.Diff(); return err }) // a type may encode itself
	switch {
	case c.Type != kube.Modified:
		note("("+strings.ToLower(string(c.Type))+")", c.Type)
	case err != nil:
		note("", c.ResourceVersion())
	}
	for _, d := range diff {
		note(d.Path, d.After)
	}
	if len(f.steps) < stepsKept { // the reconcile's own come first
		f.steps = append(f.steps, s)
	}
	f.spent += time.Since(start)
}

// learn tells the reconcile's own steps since the last turn from others' steps. It
// returns how often in a row the reconcile had to write the same value again.
func (f *facts) learn(own *writes) (undone int) {
	f.turn++
	for _, s := range f.steps {
		mine := own != nil && own.include(s.change.ResourceVersion(), s.change.UID(), s.change.Deleting())
		for i, at := range s.fields {
			x := f.fields[at]
			if x == nil {
				if len(f.fields) == fieldsKept {
					continue
				}
				x = new(looped)
				f.fields[at] = x
			}
			x.change = s.change
			if x.latest != f.turn {
				x.turns, x.latest = x.turns+1, f.turn
			}
			switch {
			case !mine:
			case x.value == s.values[i]:
				x.same, x.turn = x.same+1, f.turn
			default:
				x.value, x.same, x.turn = s.values[i], 1, f.turn
			}
		}
	}
	f.steps, f.fresh = f.steps[:0], false
	for at, x := range f.fields {
		if !at.ofObject() && f.turn-x.turn <= freeTurns {
			undone = max(undone, x.same)
		}
	}
	return undone
}

// hotLoop is a hot loop to report.
type hotLoop struct {
	causes string
	fields []fieldOf // sorted
	last   map[fieldOf]kube.Change
	undone map[fieldOf]bool // others undo the reconcile's value
}

// report returns the hot loop to report. f may be nil.
func (f *facts) report(cs *causes) *hotLoop {
	hot := &hotLoop{causes: cs.String(), last: make(map[fieldOf]kube.Change), undone: make(map[fieldOf]bool)}
	if f == nil {
		return hot
	}
	keeps := f.keepChanging()
	for at, x := range f.fields {
		if !keeps(at, x) {
			continue
		}
		hot.last[at] = x.change
		if x.same >= undoneTurns {
			hot.undone[at] = true
		}
	}
	hot.fields = slices.SortedFunc(maps.Keys(hot.last), func(a, b fieldOf) int {
		return strings.Compare(a.String(), b.String())
	})
	return hot
}

// keepChanging returns a function that picks the fields that keep changing in the loop. It
// picks all fields if there is no such field. Whole objects that come and go count
// together by their kind, because each may have another name.
func (f *facts) keepChanging() func(fieldOf, *looped) bool {
	objects := make(map[fieldOf]int) // by kind, without a key
	for at, x := range f.fields {
		if at.ofObject() {
			objects[fieldOf{kind: at.kind, field: at.field}] += x.turns
		}
	}
	keeps := func(at fieldOf, x *looped) bool {
		turns := x.turns
		if at.ofObject() {
			turns = objects[fieldOf{kind: at.kind, field: at.field}]
		}
		return turns > 1 && f.turn-x.latest <= freeTurns
	}
	for at, x := range f.fields {
		if keeps(at, x) {
			return keeps
		}
	}
	return func(fieldOf, *looped) bool { return true }
}

// ofObject reports that the whole object was added or deleted.
func (f fieldOf) ofObject() bool { return strings.HasPrefix(f.field, "(") }

func (f fieldOf) String() string {
	return strings.TrimSpace(f.kind + " " + f.key.String() + " " + f.field)
}
