package controller

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pintle-go/pintle/internal/written"
	"github.com/pintle-go/pintle/kube"
)

// wrote is what the writes of a reconcile have done, from any goroutine.
type wrote struct {
	sync.Mutex
	changed bool
	fights  []string // what others keep undoing
}

// note notes a write of a reconcile. Others may undo it again and again: then no reconcile
// causes the next one, and the depth does not show it. Package kube counts the Ensures that
// put the same back. This counts the objects of one name that are created.
func (e *engine[T]) note(a *attempt[T], w written.Write) {
	now := time.Now()
	a.writes.note(w)
	a.wrote.Lock()
	defer a.wrote.Unlock()
	if !w.Unchanged && e.depths.note(w, e.depthOf(a), now) {
		a.wrote.changed = true
	}
	object := w.Kind + " " + kube.Key{Namespace: w.Namespace, Name: w.Name}.String()
	if w.Created {
		if times, tell := e.again(now, written.Fight, w.Server, w.Group, object); tell {
			a.wrote.fights = append(a.wrote.fights, fmt.Sprintf("%s, created %d times", object, times))
		}
	}
	for _, field := range w.Undone {
		a.wrote.fights = append(a.wrote.fights, object+" "+field)
	}
}

// streaksKept are 9 MB of streaks, for each of two periods.
const streaksKept = 1 << 16

// again counts what happens once more. It returns how often that was in a row, and whether to tell of
// it: from so many times.
func (e *engine[T]) again(now time.Time, least int, what ...string) (times int, tell bool) {
	hash := maphash.String(e.streaks.seed, strings.Join(what, "\x00"))
	e.streaks.update(hash, now, func(s written.Streak) written.Streak {
		s, tell = s.Next(now, least)
		times = s.Times
		return s
	})
	return times, tell
}

// depthOf returns the depth of a reconcile. The answer to the write that caused it may have
// come after the change, and the memory of that write may have ended since the start.
func (e *engine[T]) depthOf(a *attempt[T]) int { return max(a.depth, a.turn.causes.depth(e.depths)) }

// sayHot reports a hot loop, and the writes of the reconcile that others keep undoing.
func (e *engine[T]) sayHot(a *attempt[T], now time.Time) {
	a.wrote.Lock()
	changed, fights := a.wrote.changed, slices.Clone(a.wrote.fights)
	a.wrote.Unlock()
	asks := a.next != nil && a.next.cause.depth > 0
	a.hot = (changed || asks) && loops(a.hot, e.depthOf(a))
	log, causes := a.run.logger(), &a.turn.causes
	if a.hot {
		if _, tell := e.again(now, 1, a.key.String()); tell {
			const what = "the object is reconciled in a loop, from now on at most once a second"
			fields := cmp.Or(causes.fields(), causes.String())
			log.WarnContext(a.trace, what, "fields", fields, "causes", causes)
			e.hot(a, what, fields)
		}
	}
	for _, fight := range fights {
		const what = "another writer keeps undoing what the reconcile writes"
		log.WarnContext(a.trace, what, "fields", fight, "causes", causes)
		e.hot(a, what, fight)
	}
}

// hot counts a hot loop, and tells its object of it.
func (e *engine[T]) hot(a *attempt[T], what, which string) {
	e.counts.HotLoop()
	if about := e.regarding(a); about != nil {
		e.events.Warning(about, "HotLoop", "%s: %s", what, which)
	}
}

// fields returns the fields that changed, for a report.
func (cs *causes) fields() string {
	var all []string
	for _, c := range cs.list {
		if c.Reason != Changed {
			continue
		}
		object := c.Change.Kind() + " " + c.Change.Key.String()
		var fields []string
		err := protect(func() (err error) { fields, err = c.Change.Fields(); return err }) // a type may encode itself
		if err != nil || len(fields) == 0 {
			all = append(all, fmt.Sprintf("%s (%s)", object, verbOf(c)))
		}
		for _, field := range fields {
			all = append(all, object+" "+field)
		}
	}
	return strings.Join(all, "; ")
}
