package event

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// identity is what makes two events the same. The API cannot change the note of
// an Event, so other words make another Event.
type identity struct {
	regarding, related   corev1.ObjectReference
	warning              bool
	reason, action, note string
}

// series is an event and its repetitions.
type series struct {
	identity
	name  string // of the Event, once it was tried to create it
	first time.Time
	last  time.Time
	count int32
	// written is the count that the server knows; 0: it was not created.
	written int32
	queued  bool
	// sent is the count in a request that is under way, 0 if there is none.
	sent  int32
	tries int // that have failed in a row
	// again is when repetitions are written, and apart how much later those
	// after them.
	again time.Time
	apart time.Duration
}

const (
	// Each request for an object takes one of its tokens.
	tokens     = 25
	tokenAfter = 5 * time.Minute
	// Repetitions are first written so much later; from time to time the
	// distance doubles, until it is as long as a token takes.
	firstApart = 10 * time.Second
	// forgetAfter is when the same event again is a new one.
	forgetAfter = 6 * time.Minute
	// maxSeries bounds how much is remembered, and so how much can wait. When there is
	// no room, the namespace that has the most waiting loses the latest of it.
	maxSeries = 5000
	// maxBuckets bounds how many objects are remembered.
	maxBuckets = 2 * maxSeries
)

// correlator decides which requests events are worth. It knows neither clocks nor
// servers, and is used by one goroutine at a time.
type correlator struct {
	series  map[identity]*series
	buckets map[corev1.ObjectReference]*bucket
	lanes   lanes // with what is to be written
}

// observe takes note of an event. It returns false if that is dropped.
func (c *correlator) observe(id identity, now time.Time) bool {
	own := c.bucket(id.regarding, now)
	if id.warning {
		own.warned, own.note = now, id.note
	}
	if s := c.series[id]; s != nil {
		s.count++
		s.last = now
		return true
	}
	s := &series{identity: id, first: now, last: now, count: 1, apart: firstApart}
	if !own.take(now) || !c.room(s) {
		return false
	}
	if c.series == nil {
		c.series = make(map[identity]*series)
	}
	c.series[id] = s
	c.lanes.enqueue(s)
	return true
}

// room makes room for another series, if need be by forgetting one that the
// server knows all of, or the latest of the namespace that has most waiting.
func (c *correlator) room(s *series) bool {
	if len(c.series) < maxSeries {
		return true
	}
	looked := 0
	for _, s := range c.series {
		if !s.queued && s.written == s.count {
			c.forget(s)
			return true
		}
		if looked++; looked == 100 {
			break
		}
	}
	waiting := 0
	if own := c.lanes.byName[namespaceOf(s)]; own != nil {
		waiting = len(own.queue)
	}
	if longest := c.lanes.longest(); longest != nil && len(longest.queue) > waiting+1 {
		c.forget(c.lanes.drop(longest))
		return true
	}
	return false
}

func (c *correlator) bucket(o corev1.ObjectReference, now time.Time) *bucket {
	b := c.buckets[o]
	if b == nil {
		if c.buckets == nil {
			c.buckets = make(map[corev1.ObjectReference]*bucket)
		}
		if len(c.buckets) >= maxBuckets {
			for other := range c.buckets { // any: its object gets all of its tokens again
				delete(c.buckets, other)
				break
			}
		}
		b = &bucket{left: tokens, at: now}
		c.buckets[o] = b
	}
	return b
}

// wrote notes that the server knows of count events.
func (c *correlator) wrote(s *series, count int32, now time.Time) {
	c.lanes.of(s).done()
	s.written, s.sent, s.tries = count, 0, 0
	s.again = now.Add(s.apart)
	s.apart = min(2*s.apart, tokenAfter)
}

// failed has the namespace of a series rest, and returns whether the series is tried
// again.
func (c *correlator) failed(s *series, now time.Time) bool {
	c.lanes.of(s).rest(now)
	s.sent = 0
	if s.tries++; s.tries >= maxTries {
		c.forget(s)
		return false
	}
	c.lanes.again(s)
	return true
}

// refused drops a series that the server does not take. If it is the namespace that
// takes none, that rests.
func (c *correlator) refused(s *series, namespace bool, now time.Time) {
	s.sent = 0
	if c.forget(s); namespace {
		c.lanes.of(s).rest(now)
	} else {
		c.lanes.of(s).done()
	}
}

// giveUp drops what waits in the namespace of a series.
func (c *correlator) giveUp(s *series) {
	from := c.lanes.of(s)
	for dropped := c.lanes.drop(from); dropped != nil; dropped = c.lanes.drop(from) {
		c.forget(dropped)
	}
}

// maxTries bounds how often an event is tried to be written.
const maxTries = 12

func (c *correlator) forget(s *series) {
	if c.series[s.identity] == s { // it may have been forgotten, and observed again
		delete(c.series, s.identity)
	}
}

// sweep queues the repetitions that are due, or all of them, and forgets what is
// over.
func (c *correlator) sweep(now time.Time, all bool) {
	for _, s := range c.series {
		switch {
		case s.queued, s.sent == s.count:
		case s.count > s.written:
			if all || !now.Before(s.again) && c.bucket(s.regarding, now).take(now) {
				c.lanes.enqueue(s)
			}
		case now.Sub(s.last) >= forgetAfter:
			c.forget(s)
		}
	}
	c.lanes.sweep(now)
	for o, b := range c.buckets {
		if b.full(now) {
			delete(c.buckets, o)
		}
	}
}

// unwritten returns how many Events are not as they should be.
func (c *correlator) unwritten() int {
	n := 0
	for _, s := range c.series {
		if s.count > s.written {
			n++
		}
	}
	return n
}

// bucket holds the tokens of an object, and what it was last warned of.
type bucket struct {
	left   float64
	at     time.Time // when left was right
	warned time.Time
	note   string
}

func (b *bucket) fill(now time.Time) {
	b.left = min(tokens, b.left+now.Sub(b.at).Seconds()/tokenAfter.Seconds())
	b.at = now
}

func (b *bucket) take(now time.Time) bool {
	if b.fill(now); b.left < 1 {
		return false
	}
	b.left--
	return true
}

func (b *bucket) full(now time.Time) bool {
	b.fill(now)
	return b.left >= tokens && now.Sub(b.warned) >= forgetAfter
}
