// Package recent shares the answers of reads among callers that ask at about the same time.
package recent

import (
	"context"
	"sync"
	"time"
)

// Reader shares the answers of the function Read, which is never called twice at the same
// time. A Reader must not be copied.
type Reader[T any] struct {
	// Read reads. Its answer is shared, so nobody may change it.
	Read func(ctx context.Context) (T, error)

	mu   sync.Mutex
	last *call[T] // the last that succeeded
	now  *call[T] // the one that is under way
}

type call[T any] struct {
	began time.Time
	done  chan struct{}
	got   T
	err   error
	// given says that the caller gave up, so that the error is not the answer.
	given bool
}

// Since returns the answer to a read that began at a moment or after it, and the time when
// that read began. All callers that ask for a moment before a read begins share it.
func (r *Reader[T]) Since(ctx context.Context, moment time.Time) (got T, began time.Time, err error) {
	for {
		c, mine := r.join(moment)
		if mine {
			c.got, c.err = r.Read(ctx)
			c.given = c.err != nil && ctx.Err() != nil
			r.end(c)
			return c.got, c.began, c.err
		}
		select {
		case <-c.done:
		case <-ctx.Done():
			return got, began, ctx.Err()
		}
		if !c.given && !c.began.Before(moment) {
			return c.got, c.began, c.err
		}
	}
}

// join returns the last read, if it began at the moment or after it, or the one that is under
// way, or else a new one, which the caller has to make.
func (r *Reader[T]) join(moment time.Time) (c *call[T], mine bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.last != nil && !r.last.began.Before(moment):
		return r.last, false
	case r.now != nil:
		return r.now, false
	}
	r.now = &call[T]{began: time.Now(), done: make(chan struct{})}
	return r.now, true
}

func (r *Reader[T]) end(c *call[T]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = nil
	if c.err == nil {
		r.last = c
	}
	close(c.done)
}
