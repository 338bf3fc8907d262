package controller

import (
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Backoff is how long a failed reconcile waits for its next try: Min after the
// first failure, twice as long after each further one, Max at most, and at random
// up to half less, so that objects that failed together are not tried together.
// A success starts it anew; what other objects do has no influence.
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

// delay returns how long to wait after so many failures in a row, the last with
// err: not less than what a server has asked for.
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
