package plan

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Target is a system outside the cluster. It bounds the calls to the system, of all owners
// together: those of all [Things] that name it. A program has one Target for each system.
//
// Each of Observe, Create, Update and Delete counts as a call. A node whose call has to
// wait does not hold up its owner: the plan is run again when it is the node's turn. Turns
// are given in the order in which they were asked for. A call that fails, with an answer 429
// for example, is retried after the controller's Backoff. An Observe that fails is repeated
// after 2 s at first, and then after a quarter of the time for which it has failed.
type Target struct {
	// Name is for messages. Default: "the target".
	Name string
	// Rate is the number of calls per second, on average. 0: no limit.
	Rate float64
	// Burst is the number of calls that may be made at once after a pause. Default: the
	// calls of a second, at least one.
	Burst int
	// Concurrency is the number of calls under way at the same time. Default: 8.
	Concurrency int
	// Timeout is the time after which the context of a call ends. Default: 30 s.
	Timeout time.Duration

	once  sync.Once
	rate  *rate.Limiter
	slots chan struct{}

	mu    sync.Mutex
	turns map[sightKey]time.Time // the turns that were given and not taken yet
	sweep int                    // the number of turns at which old ones are dropped
}

// patience is how long a node waits for its turn before its plan goes on without it.
const patience = 250 * time.Millisecond

// turnLasts is the time after which a turn that was not taken has to be asked for again.
const turnLasts = time.Minute

func (t *Target) String() string { return cmp.Or(t.Name, "the target") }

func (t *Target) timeout() time.Duration { return cmp.Or(t.Timeout, 30*time.Second) }

func (t *Target) begin() {
	t.once.Do(func() {
		limit := rate.Limit(t.Rate)
		if t.Rate <= 0 {
			limit = rate.Inf
		}
		t.rate = rate.NewLimiter(limit, max(1, cmp.Or(t.Burst, int(math.Ceil(min(t.Rate, math.MaxInt32))))))
		t.slots = make(chan struct{}, max(1, cmp.Or(t.Concurrency, 8)))
		t.turns = make(map[sightKey]time.Time)
	})
}

// turn asks for some calls about a thing, one after the other. It returns a function that
// ends the first; or nil, and the time after which it is the thing's turn.
func (t *Target) turn(ctx context.Context, key sightKey, calls int) (done func(), wait time.Duration, err error) {
	t.begin()
	if wait := t.reserve(key, calls, time.Now()); wait > patience {
		return nil, wait, nil
	} else if err := sleep(ctx, wait); err != nil {
		return nil, 0, err
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case t.slots <- struct{}{}:
		t.take(key)
		return func() { <-t.slots }, 0, nil
	case <-late.C:
		return nil, time.Second, nil // the turn stays the thing's
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
}

// limited reports whether there is a rate.
func (t *Target) limited() bool { return t.Rate > 0 }

// reserve returns the time until it is the thing's turn.
func (t *Target) reserve(key sightKey, calls int, now time.Time) (wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at, given := t.turns[key]; given && now.Sub(at) < turnLasts {
		return max(0, at.Sub(now))
	}
	for range calls {
		wait = t.rate.ReserveN(now, 1).DelayFrom(now)
	}
	if len(t.turns) >= max(t.sweep, 64) {
		for k, at := range t.turns {
			if now.Sub(at) >= turnLasts {
				delete(t.turns, k)
			}
		}
		t.sweep = 2 * len(t.turns)
	}
	t.turns[key] = now.Add(wait)
	return wait
}

// take notes that a thing has taken its turn.
func (t *Target) take(key sightKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.turns, key)
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// call calls a function of the program within the target's time.
func call[T any](ctx context.Context, t *Target, f func(context.Context) (*T, error)) (*T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, t.timeout(), fmt.Errorf("%s did not answer within %s", t, t.timeout()))
	defer cancel()
	is, err := f(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	return is, err
}
