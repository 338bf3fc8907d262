package controller

import (
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Backoff is how long a failed reconcile waits for its retry. It is Min after the first
// failure, twice as long after each further one, and Max at most. Up to half of it is
// taken off at random, so that objects that failed together are not retried together. A
// success resets it. The failures of other objects have no influence. The [Action] of the
// failed reconcile may shorten it. In controller-runtime the RateLimiter option does this.
type Backoff struct {
	Min time.Duration // default: 50 ms
	Max time.Duration // default: 5 min
}

func (b Backoff) withDefaults() Backoff {
	if b.Min <= 0 {
		b.Min = 50 * time.Millisecond
	}
	if b.Max <= 0 {
		b.Max = 5 * time.Minute
	}
	b.Max = max(b.Min, b.Max)
	return b
}

// delay returns how long to wait after a number of failures in a row, the last of them
// with err. It is not less than the time that a server has asked for.
func (b Backoff) delay(failures int, err error) time.Duration {
	d := b.Max
	if shift := max(failures-1, 0); shift < 40 && b.Min<<shift>>shift == b.Min {
		d = min(d, b.Min<<shift)
	}
	d = d/2 + rand.N(d/2+1)
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		asked := time.Duration(max(seconds, 0)) * time.Second // a server may say -1
		d = max(d, min(asked+rand.N(asked/8+1), b.Max))
	}
	return d
}
