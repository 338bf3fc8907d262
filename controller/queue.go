package controller

import (
	"container/heap"
	"container/list"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube"
)

// queue holds the keys that ask for a reconcile. It never hands out a key that is being
// worked on: requests in the meantime come after. If there are two requests for a key,
// the earlier due time wins. A queue is plain data: it has no goroutine, no lock and no
// clock. It does the work of client-go's workqueue.
type queue struct {
	waiting map[kube.Key]*item // in ready, in later, or held up by running
	running map[kube.Key]*item
	ready   [priorities]list.List // of *item, first in, first out
	later   dueHeap
	asleep  sleepers // keys that are not in waiting, and have only a time
	// passed counts, by priority, the turns that went ahead of waiting keys.
	passed [priorities]int
	most   int // the most keys that waited at a time since waiting was made
}

// priority is the class of a request. A lower number goes first.
type priority int

const (
	high priority = iota // set by the controller's Priority
	live                 // a change that just happened
	low                  // initial listing, resync
	priorities
)

// lowShare is how many keys go ahead of one key of a lower priority. So lower priorities
// advance even if the higher ones never run out of keys.
const lowShare = 32

// request asks for a reconcile of a key.
type request struct {
	key      kube.Key
	due      time.Time // zero: now
	priority priority
	cause    Cause
	// removed means that the object of the cause is gone. If tell is true, the controller
	// gets a turn to be told of it.
	removed, tell bool
}

// item holds the requests of a key that waits or is being worked on.
type item struct {
	key      kube.Key
	priority priority
	due      time.Time
	causes   causes
	since    time.Time     // when the key became ready, zero if it never was; later when it was taken
	writes   *writes       // of the turn, once the key is worked on
	place    *list.Element // in ready
	index    int           // in later; -1 if it is not there
}

func newQueue(now time.Time) *queue {
	return &queue{
		waiting: make(map[kube.Key]*item), running: make(map[kube.Key]*item), asleep: newSleepers(now),
	}
}

// add takes a request. It returns true if the key did not wait already.
func (q *queue) add(r request, now time.Time) (added bool) {
	if r.due.Before(now) {
		r.due = now
	}
	it := q.waiting[r.key]
	if it == nil {
		if asleep, ok := q.asleep.remove(r.key); ok {
			it = q.wait(q.asleep.request(asleep), now)
		} else if asleep, ok := q.asleep.fits(r, now); ok {
			q.asleep.add(asleep)
			return true
		} else {
			q.wait(r, now)
			return true
		}
	}
	it.causes.add(r.cause)
	if r.due.After(now) && !r.due.Before(it.due) {
		return false // the key's turn comes sooner
	}
	if !it.due.After(now) || !it.since.IsZero() { // the key is due, or was due and is put off
		r.priority = min(r.priority, it.priority)
	}
	if r.due.Before(it.due) || r.priority != it.priority {
		q.remove(it)
		it.due, it.priority = r.due, r.priority
		q.put(it, now)
	}
	return false
}

// wait makes an item of a request of a key that has none.
func (q *queue) wait(r request, now time.Time) *item {
	it := &item{key: r.key, priority: r.priority, due: r.due, index: -1}
	q.waiting[r.key] = it
	q.most = max(q.most, len(q.waiting))
	it.causes.add(r.cause)
	q.put(it, now)
	return it
}

// put places an item where it belongs, unless the key is being worked on.
func (q *queue) put(it *item, now time.Time) {
	switch {
	case q.running[it.key] != nil:
	case it.due.After(now):
		heap.Push(&q.later, it)
	default:
		it.since = now
		it.place = q.ready[it.priority].PushBack(it)
	}
}

// remove takes an item out of ready or later.
func (q *queue) remove(it *item) {
	switch {
	case it.place != nil:
		q.ready[it.priority].Remove(it.place)
		it.place = nil
	case it.index >= 0:
		heap.Remove(&q.later, it.index)
	}
}

// promote moves what is due from later, and from sleep, to ready.
func (q *queue) promote(now time.Time) {
	for due, ok := q.next(); ok && !due.After(now); due, ok = q.next() {
		if x, asleep := q.asleep.first(); asleep && q.asleep.due(x).Equal(due) {
			q.asleep.remove(x.key)
			q.wait(q.asleep.request(x), now)
			continue
		}
		it := heap.Pop(&q.later).(*item)
		it.since = now
		it.place = q.ready[it.priority].PushBack(it)
	}
}

// first returns the priority that has the next turn, and counts that turn.
func (q *queue) first() priority {
	from := priorities
	for p := range priorities {
		switch {
		case q.ready[p].Len() == 0:
			q.passed[p] = 0
		case from == priorities, q.passed[p] >= lowShare:
			from = p
		}
	}
	if from == priorities {
		return live // nothing is ready
	}
	q.passed[from] = 0
	for p := from + 1; p < priorities; p++ {
		if q.ready[p].Len() > 0 {
			q.passed[p]++
		}
	}
	return from
}

// take hands out the key that has the next turn, nil if there is none.
func (q *queue) take(now time.Time) *item {
	q.promote(now)
	from := q.first()
	first := q.ready[from].Front()
	if first == nil {
		return nil
	}
	it := first.Value.(*item)
	q.remove(it)
	delete(q.waiting, it.key)
	if len(q.waiting) == 0 && q.most > emptied {
		q.waiting, q.most = make(map[kube.Key]*item), 0 // the old map stays as large as it ever was
	}
	q.running[it.key] = it
	return it
}

// emptied is the number of keys up to which an emptied map is kept.
const emptied = 1000

// postpone takes back a key that was handed out, until the time due.
func (q *queue) postpone(it *item, due time.Time) {
	delete(q.running, it.key)
	it.due = due
	q.waiting[it.key] = it
	heap.Push(&q.later, it)
}

// done ends the work on a key, which may then be handed out again.
func (q *queue) done(key kube.Key, now time.Time) {
	delete(q.running, key)
	if it := q.waiting[key]; it != nil {
		q.put(it, now)
	}
}

// drop drops the requests that a key has because of an object that is gone. The key's
// other requests are due now, unless they wait for their time.
func (q *queue) drop(key kube.Key, gone kube.Change, now time.Time) {
	it := q.waiting[key]
	if it == nil {
		if x, ok := q.asleep.find(key); ok && x.mark().overWith(stateOf(gone)) {
			q.asleep.remove(key)
		}
		return
	}
	q.remove(it)
	if !it.causes.drop(gone) {
		delete(q.waiting, key)
		return
	}
	if !it.causes.wait() {
		it.due = now
	}
	q.put(it, now)
}

// dropRead drops the request of a key if its only cause is a state of the key's object that
// the key's turn has read. A store shows a state to reads a moment before its loops over
// changes.
func (q *queue) dropRead(key kube.Key, uid types.UID, version string) {
	it := q.waiting[key]
	if it != nil && it.causes.areState(uid, version) {
		q.remove(it)
		delete(q.waiting, key)
	}
}

// next returns the time when the first key that is not due yet becomes due. ok is false
// if there is none.
func (q *queue) next() (due time.Time, ok bool) {
	if x, asleep := q.asleep.first(); asleep {
		due, ok = q.asleep.due(x), true
	}
	if len(q.later) > 0 && (!ok || q.later[0].due.Before(due)) {
		due, ok = q.later[0].due, true
	}
	return due, ok
}

// depth returns how many keys are due and wait for their turn.
func (q *queue) depth(p priority) int { return q.ready[p].Len() }

// dueHeap orders items by due time.
type dueHeap []*item

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *dueHeap) Push(x any) {
	it := x.(*item)
	it.index = len(*h)
	*h = append(*h, it)
}

func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	it := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	it.index = -1
	return it
}
