package event

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// identity has the fields that make two events the same. The API cannot change the note
// of an Event, so an event with another note makes another Event.
type identity struct {
	regarding, related   corev1.ObjectReference
	warning              bool
	reason, action, note string
}

// series is an event and its repetitions.
type series struct {
	identity
	name  string // of the Event, once a create was tried
	first time.Time
	last  time.Time
	count int32
	// written is the count that the server knows; 0 if the Event was not created.
	written int32
	queued  bool
	// sent is the count in a request in flight, 0 if there is none.
	sent  int32
	tries int // consecutive failed tries
	// again is the time at which repetitions are written. apart is the interval to the
	// next write after that.
	again time.Time
	apart time.Duration
}

const (
	// Each request for an object takes one of its tokens.
	tokens     = 25
	tokenAfter = 5 * time.Minute
	// The first repetitions are written after firstApart. The interval doubles from time
	// to time, until it is as long as a token takes.
	firstApart = 10 * time.Second
	// forgetAfter is the time without repetitions after which the same event makes
	// another Event.
	forgetAfter = 6 * time.Minute
	// maxSeries is the number of remembered series, and so the most that can wait. When
	// there is no room, the namespace with the most waiting series loses its latest one.
	maxSeries = 5000
	// maxBuckets is the number of remembered objects.
	maxBuckets = 2 * maxSeries
)

// correlator decides which events are worth a request. It knows neither clocks nor
// servers, and is used by one goroutine at a time. The counterpart is client-go's
// record.EventCorrelator.
type correlator struct {
	series  map[identity]*series
	buckets map[corev1.ObjectReference]*bucket
	lanes   lanes // with the series to be written
}

// observe records an event. It returns false if the event is dropped.
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
	if !own.take(now) || !c.room(s, now) {
		return false
	}
	if c.series == nil {
		c.series = make(map[identity]*series)
	}
	c.series[id] = s
	c.lanes.enqueue(s, now)
	return true
}

// room makes room for another series. If necessary it forgets a series that the server
// has completely, or the latest one of the namespace with the most waiting.
func (c *correlator) room(s *series, now time.Time) bool {
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
		c.forget(c.lanes.drop(longest, now))
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
			for other := range c.buckets { // any bucket; its object gets all of its tokens back
				delete(c.buckets, other)
				break
			}
		}
		b = &bucket{left: tokens, at: now}
		c.buckets[o] = b
	}
	return b
}

// wrote records that the server knows of count events.
func (c *correlator) wrote(s *series, count int32, now time.Time) {
	c.lanes.done(c.lanes.of(s), now)
	s.written, s.sent, s.tries = count, 0, 0
	s.again = now.Add(s.apart)
	s.apart = min(2*s.apart, tokenAfter)
}

// failed pauses the namespace of a series, and returns whether the series is retried.
func (c *correlator) failed(s *series, now time.Time) bool {
	c.lanes.rest(c.lanes.of(s), now)
	s.sent = 0
	if s.tries++; s.tries >= maxTries {
		c.forget(s)
		return false
	}
	c.lanes.again(s, now)
	return true
}

// brokenOff has the event of a request that was broken off written again.
func (c *correlator) brokenOff(s *series, now time.Time) {
	c.lanes.done(c.lanes.of(s), now)
	s.sent = 0
	c.lanes.again(s, now)
}

// refused drops a series that the server refuses. If the server refuses all events of the
// namespace, the namespace pauses.
func (c *correlator) refused(s *series, namespace bool, now time.Time) {
	s.sent = 0
	if c.forget(s); namespace {
		c.lanes.rest(c.lanes.of(s), now)
	} else {
		c.lanes.done(c.lanes.of(s), now)
	}
}

// giveUp drops the waiting series of the namespace of a series.
func (c *correlator) giveUp(s *series, now time.Time) {
	from := c.lanes.of(s)
	for dropped := c.lanes.drop(from, now); dropped != nil; dropped = c.lanes.drop(from, now) {
		c.forget(dropped)
	}
}

// maxTries is the number of tries to write an event.
const maxTries = 12

func (c *correlator) forget(s *series) {
	if c.series[s.identity] == s { // it may have been forgotten, and observed again
		delete(c.series, s.identity)
	}
}

// sweep queues the repetitions that are due, or all of them, and forgets the series that
// are over.
func (c *correlator) sweep(now time.Time, all bool) {
	for _, s := range c.series {
		switch {
		case s.queued, s.sent == s.count:
		case s.count > s.written:
			if all || !now.Before(s.again) && c.bucket(s.regarding, now).take(now) {
				c.lanes.enqueue(s, now)
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

// unwritten returns the number of Events that the server does not have in their latest
// state.
func (c *correlator) unwritten() int {
	n := 0
	for _, s := range c.series {
		if s.count > s.written {
			n++
		}
	}
	return n
}

// bucket holds the tokens of an object, and its last warning.
type bucket struct {
	left   float64
	at     time.Time // the time for which left was computed
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
