package kube

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// pace says how soon a reflector may ask again.
type pace int

const (
	// atOnce follows a watch that worked.
	atOnce pace = iota
	// brisk follows a watch that told something and ended within a second. It also
	// follows an attempt to connect that took longer than a second.
	brisk
	// cheap follows a failure that costs the server nothing: nobody answered, or a proxy
	// said at once that no server answers. The delay stays short, so that the clients
	// recover soon after the server does.
	cheap
	// patient follows every other failure, above all an answer that asks for patience.
	patient
	paces
)

const (
	minDelay = 250 * time.Millisecond
	maxDelay = 30 * time.Second
	// reconnectWithin spreads clients whose watches were cut at the same time.
	reconnectWithin = 50 * time.Millisecond
	// quickly is the time within which a failure counts as one that cost nothing.
	quickly = time.Second
)

// most is the longest delay at a pace, except for atOnce.
func (p pace) most() time.Duration {
	switch p {
	case brisk:
		return time.Second
	case cheap:
		return 3 * time.Second
	}
	return maxDelay
}

// paceAfter is the pace after a request that failed within some time.
func paceAfter(err error, took time.Duration) pace {
	code := codeOf(err)
	switch {
	case asksForTime(err):
		return patient
	case errors.Is(err, ErrUnreachable) && took >= quickly:
		return brisk // the time for a connection was waiting enough
	case errors.Is(err, ErrUnreachable):
		return cheap
	case took >= quickly:
		return patient
	case errors.Is(err, errLost), errors.Is(err, errBroken):
		return cheap
	case code == http.StatusBadGateway, code == http.StatusServiceUnavailable, code == http.StatusGatewayTimeout:
		return cheap
	}
	return patient
}

// backOff counts the tries at each pace since a watch last worked for a while.
type backOff struct{ tries [paces]int }

// delay is how long to wait before the next try. At each pace the delay doubles with
// every try, and is spread over its upper half.
func (b *backOff) delay(p pace) time.Duration {
	if p == atOnce {
		return rand.N(reconnectWithin)
	}
	d := p.most()
	if shift := b.tries[p]; shift < 7 {
		d = min(d, minDelay<<shift)
	}
	b.tries[p]++
	return spread(d)
}

// spread returns a random part of d that is at least its half.
func spread(d time.Duration) time.Duration {
	d = max(d, 0)
	return d/2 + rand.N(d/2+1)
}

// jitter spreads d over d to 1.5 d, so that clients do not come back together.
func jitter(d time.Duration) time.Duration {
	d = max(d, 0)
	return d + rand.N(d/2+1)
}

// asksForTime reports that an answer asks the client to come back later.
func asksForTime(err error) bool {
	_, asked := suggestedDelay(err)
	return asked || codeOf(err) == http.StatusTooManyRequests
}

// suggestedDelay is how long an answer asks the client to wait. Servers may send any
// value, also one below zero.
func suggestedDelay(err error) (time.Duration, bool) {
	seconds, asked := apierrors.SuggestsClientDelay(err)
	return min(max(time.Duration(seconds)*time.Second, 0), maxRetryAfter), asked
}

// codeOf returns the HTTP status of an answer that is an error, or 0.
func codeOf(err error) int {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return int(status.Status().Code)
	}
	return 0
}

// sleep waits for d or until ctx ends. If ctx ends, it returns the cause of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
