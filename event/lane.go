package event

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// lane is a namespace with its events that are to be written. A namespace may refuse
// events while others accept them: it may be terminating, over its quota, or have a
// webhook that does not answer. So each namespace has its own queue and back-off, and one
// request at a time.
type lane struct {
	namespace string
	queue     []*series // oldest first
	busy      bool      // a request is in flight
	due       time.Time // when the next request may be made
	pause     time.Duration
	told      bool // its failure was logged
}

const (
	minPause = time.Second
	maxPause = time.Minute
)

// lanes are the namespaces that have events to write, or a pause.
type lanes struct {
	byName map[string]*lane
	turns  []*lane // the next is first
	queued int
}

// namespaceOf returns the namespace in which the event of a series is written.
func namespaceOf(s *series) string {
	if s.regarding.Namespace == "" {
		return metav1.NamespaceDefault
	}
	return s.regarding.Namespace
}

// of returns the lane of a series.
func (l *lanes) of(s *series) *lane {
	name := namespaceOf(s)
	found := l.byName[name]
	if found == nil {
		if l.byName == nil {
			l.byName = make(map[string]*lane)
		}
		found = &lane{namespace: name, pause: minPause}
		l.byName[name] = found
		l.turns = append(l.turns, found)
	}
	return found
}

// enqueue queues a series after the others of its namespace.
func (l *lanes) enqueue(s *series) {
	s.queued = true
	l.queued++
	to := l.of(s)
	to.queue = append(to.queue, s)
}

// next takes the oldest waiting series of the lane whose turn it is. The lane is busy
// until done is called.
func (l *lanes) next(now time.Time) *series {
	for i, from := range l.turns {
		if from.busy || len(from.queue) == 0 || now.Before(from.due) {
			continue
		}
		l.turns = append(slices.Delete(l.turns, i, i+1), from)
		s := from.queue[0]
		from.queue[0] = nil
		if from.queue = from.queue[1:]; len(from.queue) == 0 {
			from.queue = nil // frees the queue, which has grown to the largest burst
		}
		s.queued, from.busy = false, true
		l.queued--
		return s
	}
	return nil
}

// due returns the time at which next returns a series again if nothing else happens. ok
// is false if it never does.
func (l *lanes) due() (at time.Time, ok bool) {
	for _, from := range l.turns {
		if !from.busy && len(from.queue) > 0 && (!ok || from.due.Before(at)) {
			at, ok = from.due, true
		}
	}
	return at, ok
}

// done ends a successful request.
func (l *lane) done() { l.busy, l.pause, l.due = false, minPause, time.Time{} }

// rest ends a failed request. The next one is made after a growing pause.
func (l *lane) rest(now time.Time) {
	l.busy, l.due = false, now.Add(l.pause)
	l.pause = min(2*l.pause, maxPause)
}

// again puts a series back to the front, unless repetitions have been queued meanwhile.
func (l *lanes) again(s *series) {
	if s.queued {
		return
	}
	s.queued = true
	l.queued++
	to := l.of(s)
	to.queue = slices.Insert(to.queue, 0, s)
}

// longest returns the lane with the most waiting series.
func (l *lanes) longest() (longest *lane) {
	for _, one := range l.turns {
		if longest == nil || len(one.queue) > len(longest.queue) {
			longest = one
		}
	}
	return longest
}

// drop removes and returns the last waiting series of a lane, nil if none waits.
func (l *lanes) drop(from *lane) *series {
	if len(from.queue) == 0 {
		return nil
	}
	last := len(from.queue) - 1
	s := from.queue[last]
	from.queue[last] = nil
	from.queue = from.queue[:last]
	s.queued = false
	l.queued--
	return s
}

// sweep forgets the lanes that have neither events nor a pause.
func (l *lanes) sweep(now time.Time) {
	l.turns = slices.DeleteFunc(l.turns, func(one *lane) bool {
		over := !one.busy && len(one.queue) == 0 && !now.Before(one.due.Add(maxPause))
		if over {
			delete(l.byName, one.namespace)
		}
		return over
	})
}

// hurry ends all pauses.
func (l *lanes) hurry() {
	for _, one := range l.turns {
		one.due, one.pause = time.Time{}, minPause
	}
}
