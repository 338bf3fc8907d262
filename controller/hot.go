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
		tell := false
		hash := maphash.Comparable(e.created.seed, [3]string{w.Server, w.Group, object})
		made := e.created.update(hash, now, func(s written.Streak) written.Streak {
			s, tell = s.Next(now)
			return s
		})
		if tell {
			a.wrote.fights = append(a.wrote.fights, fmt.Sprintf("%s, created %d times", object, made.Times))
		}
	}
	for _, field := range w.Undone {
		a.wrote.fights = append(a.wrote.fights, object+" "+field)
	}
}

// depthOf returns the depth of a reconcile. The answer to the write that caused it may have
// come after the change, and the memory of that write may have ended since the start.
func (e *engine[T]) depthOf(a *attempt[T]) int { return max(a.depth, a.turn.causes.depth(e.depths.of)) }

// sayHot reports a hot loop, and the writes of the reconcile that others keep undoing.
func (e *engine[T]) sayHot(a *attempt[T], now time.Time) {
	a.wrote.Lock()
	changed, fights := a.wrote.changed, slices.Clone(a.wrote.fights)
	a.wrote.Unlock()
	causes := changed || a.next != nil && a.next.cause.depth > 0
	if a.hot = causes && pauseFor(a.hot, e.depthOf(a)) == hotPause; a.hot && e.tells(a.key, now) {
		const what = "the object is reconciled in a loop, from now on at most once a second"
		fields := a.turn.causes.fields()
		a.run.logger().WarnContext(a.trace, what, "fields", fields, "causes", &a.turn.causes)
		e.hot(a, what, cmp.Or(fields, a.turn.causes.String()))
	}
	for _, fight := range fights {
		const what = "another writer keeps undoing what the reconcile writes"
		a.run.logger().WarnContext(a.trace, what, "fields", fight, "causes", &a.turn.causes)
		e.hot(a, what, fight)
	}
}

// tells reports whether it is time to report a hot loop of a key.
func (e *engine[T]) tells(key kube.Key, now time.Time) (tell bool) {
	e.said.update(maphash.Comparable(e.said.seed, key), now, func(last time.Time) time.Time {
		if tell = now.Sub(last) >= hotAgain; tell {
			return now
		}
		return last
	})
	return tell
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
