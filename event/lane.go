package event

import (
	"container/heap"
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
	// turn: it is among those whose turn comes. resting and full are its places in these
	// heaps, one more than the index; 0: it is not there.
	turn          bool
	resting, full int
}

const (
	minPause = time.Second
	maxPause = time.Minute
)

// lanes are the namespaces that have events to write, or a pause. There may be thousands of
// them, so no step but sweep and hurry looks at all.
type lanes struct {
	byName  map[string]*lane
	turns   []*lane  // those that may make a request, the next one first
	resting laneHeap // those that must wait for it, the first one to be due at the top
	fullest laneHeap // all, the one with the most waiting series at the top
	queued  int
}

// laneHeap is a heap of lanes for container/heap.
type laneHeap struct {
	lanes []*lane
	less  func(a, b *lane) bool
	place func(*lane) *int // the field of a lane that has its place in this heap
}

func (h *laneHeap) Len() int           { return len(h.lanes) }
func (h *laneHeap) Less(i, j int) bool { return h.less(h.lanes[i], h.lanes[j]) }

func (h *laneHeap) Swap(i, j int) {
	h.lanes[i], h.lanes[j] = h.lanes[j], h.lanes[i]
	*h.place(h.lanes[i]), *h.place(h.lanes[j]) = i+1, j+1
}

func (h *laneHeap) Push(x any) {
	h.lanes = append(h.lanes, x.(*lane))
	*h.place(h.lanes[len(h.lanes)-1]) = len(h.lanes)
}

func (h *laneHeap) Pop() any {
	last := h.lanes[len(h.lanes)-1]
	h.lanes[len(h.lanes)-1] = nil
	h.lanes = h.lanes[:len(h.lanes)-1]
	*h.place(last) = 0
	return last
}

// set has a lane in the heap, at its place, or not.
func (h *laneHeap) set(l *lane, in bool) {
	switch at := *h.place(l); {
	case in && at == 0:
		heap.Push(h, l)
	case in:
		heap.Fix(h, at-1)
	case at > 0:
		heap.Remove(h, at-1)
	}
}

// moved puts a lane where it belongs after it has changed.
func (l *lanes) moved(x *lane, now time.Time) {
	waits := !x.busy && len(x.queue) > 0
	l.fullest.set(x, true)
	l.resting.set(x, waits && now.Before(x.due))
	if waits && !now.Before(x.due) && !x.turn {
		x.turn = true
		l.turns = append(l.turns, x)
	}
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
			l.resting = laneHeap{
				less:  func(a, b *lane) bool { return a.due.Before(b.due) },
				place: func(x *lane) *int { return &x.resting },
			}
			l.fullest = laneHeap{
				less:  func(a, b *lane) bool { return len(a.queue) > len(b.queue) },
				place: func(x *lane) *int { return &x.full },
			}
		}
		found = &lane{namespace: name, pause: minPause}
		l.byName[name] = found
		l.fullest.set(found, true)
	}
	return found
}

// enqueue queues a series after the others of its namespace.
func (l *lanes) enqueue(s *series, now time.Time) {
	s.queued = true
	l.queued++
	to := l.of(s)
	to.queue = append(to.queue, s)
	l.moved(to, now)
}

// next takes the oldest waiting series of the lane whose turn it is. The lane is busy
// until done or rest is called.
func (l *lanes) next(now time.Time) *series {
	for len(l.resting.lanes) > 0 && !now.Before(l.resting.lanes[0].due) {
		l.moved(l.resting.lanes[0], now)
	}
	for len(l.turns) > 0 {
		from := l.turns[0]
		l.turns[0] = nil
		l.turns, from.turn = l.turns[1:], false
		if from.busy || len(from.queue) == 0 || now.Before(from.due) {
			continue // it has changed since its turn was noted
		}
		s := from.queue[0]
		from.queue[0] = nil
		if from.queue = from.queue[1:]; len(from.queue) == 0 {
			from.queue = nil // frees the queue, which has grown to the largest burst
		}
		s.queued, from.busy = false, true
		l.queued--
		l.moved(from, now)
		return s
	}
	return nil
}

// due returns the time at which next returns a series again if nothing else happens. ok
// is false if it never does.
func (l *lanes) due() (at time.Time, ok bool) {
	for _, x := range l.turns {
		if !x.busy && len(x.queue) > 0 && x.resting == 0 {
			return x.due, true
		}
	}
	if len(l.resting.lanes) == 0 {
		return at, false
	}
	return l.resting.lanes[0].due, true
}

// done ends a successful request.
func (l *lanes) done(x *lane, now time.Time) {
	x.busy, x.pause, x.due = false, minPause, time.Time{}
	l.moved(x, now)
}

// rest ends a failed request. The next one is made after a growing pause.
func (l *lanes) rest(x *lane, now time.Time) {
	x.busy, x.due = false, now.Add(x.pause)
	x.pause = min(2*x.pause, maxPause)
	l.moved(x, now)
}

// again puts a series back to the front, unless repetitions have been queued meanwhile.
func (l *lanes) again(s *series, now time.Time) {
	if s.queued {
		return
	}
	s.queued = true
	l.queued++
	to := l.of(s)
	to.queue = slices.Insert(to.queue, 0, s)
	l.moved(to, now)
}

// longest returns the lane with the most waiting series, nil if there is no lane.
func (l *lanes) longest() *lane {
	if len(l.fullest.lanes) == 0 {
		return nil
	}
	return l.fullest.lanes[0]
}

// drop removes and returns the last waiting series of a lane, nil if none waits.
func (l *lanes) drop(from *lane, now time.Time) *series {
	if len(from.queue) == 0 {
		return nil
	}
	last := len(from.queue) - 1
	s := from.queue[last]
	from.queue[last] = nil
	from.queue = from.queue[:last]
	s.queued = false
	l.queued--
	l.moved(from, now)
	return s
}

// sweep forgets the lanes that have neither events nor a pause.
func (l *lanes) sweep(now time.Time) {
	for name, x := range l.byName {
		if !x.busy && len(x.queue) == 0 && !now.Before(x.due.Add(maxPause)) {
			delete(l.byName, name)
			l.resting.set(x, false)
			l.fullest.set(x, false)
		}
	}
}

// hurry ends all pauses.
func (l *lanes) hurry(now time.Time) {
	for _, x := range l.byName {
		x.due, x.pause = time.Time{}, minPause
		l.moved(x, now)
	}
}
