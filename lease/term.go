package lease

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// instant is a moment by the two clocks of a process. The monotonic clock stops while the
// machine is suspended; the wall clock can be set.
type instant struct {
	mono time.Time
	wall time.Time // without a monotonic reading
}

func (i instant) add(d time.Duration) instant {
	return instant{i.mono.Add(d), i.wall.Add(d)}
}

// term is the time for which a process may act. It ends for good when either clock passes
// its end, or when the lease is found to belong to another process.
type term struct {
	now   func() instant
	end   context.CancelCauseFunc
	timer *time.Timer

	mu    sync.Mutex
	until instant
	lost  error
}

// newTerm returns a term and a context that ends with the term. The context has the
// values of ctx but does not end with ctx. The term ends at until unless it is extended.
func newTerm(ctx context.Context, now func() instant, until instant) (context.Context, *term) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	t := &term{now: now, until: until, end: cancel}
	t.mu.Lock() // the timer may be due
	defer t.mu.Unlock()
	t.timer = time.AfterFunc(time.Until(until.mono), func() { _ = t.check() })
	return ctx, t
}

// check returns the reason why the process must not act, or nil.
func (t *term) check() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost != nil {
		return t.lost
	}
	switch now := t.now(); {
	case !now.mono.Before(t.until.mono):
		t.close(fmt.Errorf("%w: it was not renewed in time", ErrLost))
	case !now.wall.Before(t.until.wall):
		t.close(fmt.Errorf("%w: it was not renewed in time by the wall clock, or the wall clock was changed", ErrLost))
	}
	return t.lost
}

// extend moves the end of a term that has not ended.
func (t *term) extend(until instant) {
	if t.check() != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost == nil {
		t.until = until
		t.timer.Reset(time.Until(until.mono))
	}
}

// left returns the time until the term ends if it is not extended.
func (t *term) left() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	return max(0, min(t.until.mono.Sub(now.mono), t.until.wall.Sub(now.wall)))
}

// lose ends the term now.
func (t *term) lose(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost == nil {
		t.close(err)
	}
}

// close is called with mu held.
func (t *term) close(err error) {
	t.lost = err
	t.timer.Stop()
	t.end(err)
}
