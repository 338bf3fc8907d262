package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pintle-go/pintle/internal/gate"
)

// hold calls f while it renews the lease, and then gives the lease up. Its error wraps
// errSteppedDown if it gave the lease up because another process claims it.
func (e *election) hold(ctx context.Context, got *held, f func(context.Context) error) error {
	until, term := newTerm(ctx, e.now, got.until)
	e.tell(e.Identity, true)

	// Renewals go on after the end of ctx, and after a claim, for as long as f takes to
	// stop. They are not subject to a gate.
	renewals, stop := context.WithCancel(until)
	unclaimed, stepDown := context.WithCancelCause(ctx)
	defer stepDown(nil)
	last := got.lease
	var renewing sync.WaitGroup
	renewing.Go(func() {
		last = e.renew(renewals, term, last, stepDown)
		if errors.Is(context.Cause(until), ErrLost) {
			e.tell(holder(last), false)
		}
	})
	err := func() error {
		defer renewing.Wait()
		defer stop()
		acting, cancel := gate.With(context.WithValue(unclaimed, heldKey{}, until), until, term.check)
		defer cancel()
		// Work that f left running must not write while another process does.
		defer term.lose(errEnded)
		return f(acting)
	}()

	lost, stopped := context.Cause(until), context.Cause(unclaimed)
	switch {
	case errors.Is(err, ErrUnfinished):
		e.Logger.Warn(
			"the lease is not released, because work is still running; other processes wait until the lease expires", "error",
			err,
		)
	case holder(last) == e.Identity:
		e.release(ctx, last)
	}
	cutOff := err == nil || errors.Is(err, context.Canceled)
	switch {
	case errors.Is(lost, errEnded) && errors.Is(stopped, errClaimed) && (cutOff || errors.Is(err, errClaimed)):
		return errSteppedDown
	case errors.Is(lost, errEnded):
		return err
	case cutOff, errors.Is(err, ErrLost), errors.Is(err, errClaimed):
		return fmt.Errorf("hold lease %s: %w", e.key, lost)
	}
	return fmt.Errorf("hold lease %s: %w; the function returned: %w", e.key, lost, err)
}

var errSteppedDown = errors.New("the lease was released to a process that claims it")

var errEnded = errors.New("the function that held the lease has returned")

// renew renews the lease until ctx ends, or until the term ends if that is earlier. It
// returns the lease as it was last seen, nil if the lease is known to be gone. It calls
// stepDown when another process claims the lease.
func (e *election) renew(
	ctx context.Context, term *term, lease *coordinationv1.Lease, stepDown context.CancelCauseFunc,
) *coordinationv1.Lease {
	// The wait is counted, as the term is, from the start of the request that acquired
	// the lease.
	timer := time.NewTimer(term.left() - (e.Duration - e.Margin - e.Renew))
	defer timer.Stop()
	failing, claimed := false, false
	for {
		select {
		case <-ctx.Done():
			return lease
		case <-timer.C:
		}
		if term.check() != nil {
			return lease
		}
		// A request does not get all of the time left: after an answer that never comes,
		// there must be time for another try. It never gets so little that tries follow
		// one another without end.
		left := term.left()
		from := time.Now()
		seen, err := e.renewOnce(ctx, term, lease, max(left*2/3, e.Duration/20))
		lease = seen
		switch {
		case ctx.Err() != nil:
			return lease
		case holder(lease) != e.Identity:
			term.lose(fmt.Errorf("%w: %s", ErrLost, takenBy(lease)))
			return lease
		case err != nil:
			if !failing {
				warnOfRenewal(e.Logger, err, term.left())
			}
			timer.Reset(max(min(e.Renew, left)/4, e.Duration/100))
		default:
			if failing {
				e.Logger.Info("renewal of the lease succeeds again")
			}
			timer.Reset(max(time.Until(from.Add(e.Renew)), e.Duration/100))
		}
		failing = err != nil
		// The process that takes the lease removes older claims, so this claim is later.
		if by := claimOf(lease).identity; by != "" && by != e.Identity && !e.TakeOver && !claimed {
			claimed = true
			e.Logger.Info("another process claims the lease; stepping down", "claimant", by)
			stepDown(fmt.Errorf("%w: %s", errClaimed, by))
		}
	}
}

// warnOfRenewal logs a failed renewal. If no later one succeeds, the lease is lost in the
// time that is left.
func warnOfRenewal(to *slog.Logger, err error, left time.Duration) {
	to.Warn("cannot renew the lease; retrying", "error", err, "left", left.Round(time.Millisecond))
}

// takenBy explains why the lease no longer belongs to this process.
func takenBy(lease *coordinationv1.Lease) string {
	switch {
	case lease == nil:
		return "it was deleted"
	case holder(lease) == "":
		return "another process released it"
	}
	return holder(lease) + " holds it"
}

// renewOnce renews the lease and extends the term. It returns the resulting lease, which
// may belong to another process. It returns the lease unchanged if the result is not
// known. It tries at most twice: a server may refuse each try.
func (e *election) renewOnce(
	ctx context.Context, term *term, lease *coordinationv1.Lease, within time.Duration,
) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("no answer within %s", within.Round(time.Millisecond)))
	defer cancel()
	for again := false; ; again = true {
		from := e.now()
		next, err := e.leases.Update(ctx, renewed(lease, e.Duration, from.wall))
		if err == nil {
			term.extend(from.add(e.Duration - e.Margin))
			return next, nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return lease, err
		}
		// The lease has changed. Either our own renewal was executed and its answer was
		// lost, or something like a label was edited.
		seen, gerr := e.leases.Get(ctx, e.Name)
		switch {
		case apierrors.IsNotFound(gerr):
			return e.restore(ctx, term, lease)
		case gerr != nil:
			return lease, gerr
		case holder(seen) != e.Identity:
			return seen, nil
		case again:
			return seen, err
		}
		lease = seen
	}
}

// restore creates the lease again after it was deleted while this process held it.
func (e *election) restore(ctx context.Context, term *term, was *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	from := e.now()
	again := new(coordinationv1.Lease)
	again.Namespace, again.Name = e.Namespace, e.Name
	again.Spec = renewed(was, e.Duration, from.wall).Spec
	again, err := e.leases.Create(ctx, again)
	switch {
	case apierrors.IsAlreadyExists(err):
		seen, gerr := e.leases.Get(ctx, e.Name)
		if gerr != nil {
			return was, gerr
		}
		return seen, nil
	case err != nil:
		return was, err
	}
	term.extend(from.add(e.Duration - e.Margin))
	return again, nil
}

// release gives the lease up, so that other processes need not wait until it expires. It
// is not cancelled by the end of ctx.
func (e *election) release(ctx context.Context, lease *coordinationv1.Lease) {
	ctx, cancel := context.WithTimeoutCause(
		context.WithoutCancel(ctx), releaseWithin, fmt.Errorf("no answer within %s", releaseWithin),
	)
	defer cancel()
	for holder(lease) == e.Identity {
		next, err := e.leases.Update(ctx, released(lease, e.wall()))
		if apierrors.IsConflict(err) {
			// A renewal in flight may have been executed.
			time.Sleep(releasePause)
			next, err = e.leases.Get(ctx, e.Name)
		}
		if err != nil && !apierrors.IsNotFound(err) {
			e.Logger.Warn("cannot release the lease; other processes wait until the lease expires", "error", err)
			break
		}
		lease = next
	}
	e.tell(holder(lease), false)
}

// releaseWithin is the longest time that a stop waits for a server that does not answer.
const releaseWithin = 5 * time.Second

// releasePause is the time between the tries of a release that the server refuses.
const releasePause = releaseWithin / 20
