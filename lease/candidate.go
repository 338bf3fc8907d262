package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pintle-go/pintle/kube"
)

// observation is a candidate's knowledge of the lease. The candidate measures with its
// own clock alone: a holder, or a claimant, has gone when its record has not changed for
// the duration that it announces.
type observation struct {
	lease *coordinationv1.Lease // nil: the lease does not exist
	free  time.Time             // when it may be taken, unless it changes
	// claim is the claim of another process. It keeps others from taking the lease until
	// unclaimed.
	claim     claim
	unclaimed time.Time
}

// see records the lease as it was read. nil means that it does not exist.
func (o *observation) see(lease *coordinationv1.Lease, identity string, otherwise time.Duration) {
	was, now := o.lease, time.Now()
	o.lease = lease
	switch {
	case lease == nil:
		// Its last holder may still act on a deleted lease.
	case holder(lease) == "", holder(lease) == identity:
		o.free = now
	case !sameRecord(was, lease):
		o.free = now.Add(lasts(lease, otherwise))
	}
	switch c := claimOf(lease); {
	case c.identity == "", c.identity == identity:
		o.claim, o.unclaimed = claim{}, time.Time{}
	case c.text != o.claim.text:
		o.claim, o.unclaimed = c, now.Add(c.lasts)
	}
}

// takeable returns the time at which this process may take the lease, unless the lease
// changes.
func (o *observation) takeable() time.Time {
	if o.unclaimed.After(o.free) {
		return o.unclaimed
	}
	return o.free
}

// held is a lease that this process has acquired.
type held struct {
	lease *coordinationv1.Lease
	until instant
}

// acquire waits until this process holds the lease. It returns nil if ctx ends first.
// Everything that it started has ended when it returns.
func (e *election) acquire(ctx context.Context) (*held, error) {
	var watching sync.WaitGroup
	defer watching.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes := make(chan *coordinationv1.Lease, 1)
	watching.Go(func() { e.watch(ctx, changes) })

	e.asked, e.claims = false, false
	var seen observation
	var claim time.Time // when the claim must be renewed
	timer := time.NewTimer(0)
	defer timer.Stop()
	look := true // read the lease from the server, because the known state may be stale
	failing := false
	for ctx.Err() == nil {
		got, err := e.attempt(ctx, &seen, look)
		if err == nil && got == nil && e.mayClaim(&seen) && time.Until(claim) <= 0 {
			claim = time.Now().Add(e.Renew)
			err = e.claim(ctx, &seen)
		}
		switch {
		case got != nil:
			return got, nil
		case errors.Is(err, kube.ErrKind), errors.Is(err, kube.ErrScope):
			return nil, err // no request was made, and none can be
		case ctx.Err() != nil:
			continue
		case err != nil && !failing:
			e.Logger.Warn("cannot read or take the lease; retrying", "error", err)
		case err == nil && failing:
			e.Logger.Info("the lease can be read again")
		}
		failing = err != nil
		e.tell(holder(seen.lease), false)
		wait := time.Until(seen.takeable())
		if e.mayClaim(&seen) {
			wait = min(wait, time.Until(claim))
		}
		if look = failing; failing {
			wait = e.Renew
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case lease := <-changes:
			seen.see(lease, e.Identity, e.Duration)
		case <-timer.C:
		}
	}
	if e.asked || e.claims {
		e.giveBack(ctx)
	}
	return nil, nil
}

// giveBack releases the lease if the server executed a request that nobody waited for,
// and withdraws a claim. Other processes would otherwise wait until these expire.
func (e *election) giveBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseWithin)
	defer cancel()
	for {
		lease, err := e.leases.Get(ctx, e.Name)
		if err == nil && claimOf(lease).identity == e.Identity {
			lease, err = e.leases.Update(ctx, unclaimed(lease))
		}
		if apierrors.IsConflict(err) && ctx.Err() == nil {
			time.Sleep(releasePause)
			continue
		}
		if err == nil {
			e.release(ctx, lease)
		}
		return
	}
}

// mayClaim reports whether this process should ask the holder to step down. If several
// processes want the lease, the first one asks.
func (e *election) mayClaim(seen *observation) bool {
	return e.TakeOver && holder(seen.lease) != "" && time.Until(seen.unclaimed) <= 0
}

// claim asks the holder to step down, or renews that claim.
func (e *election) claim(ctx context.Context, seen *observation) error {
	ctx, cancel := context.WithTimeoutCause(ctx, e.Duration, fmt.Errorf("no answer within %s", e.Duration))
	defer cancel()
	for again := false; e.mayClaim(seen); again = true {
		if !e.claims {
			e.Logger.Info("asking the holder of the lease to step down", "holder", holder(seen.lease))
		}
		e.claims = true
		lease, err := e.leases.Update(ctx, claiming(seen.lease, e.Identity, e.Duration, e.wall()))
		if apierrors.IsConflict(err) && !again { // the holder has renewed the lease
			lease, err = e.leases.Get(ctx, e.Name)
			if err == nil {
				seen.see(lease, e.Identity, e.Duration)
				continue
			}
		}
		switch {
		case apierrors.IsNotFound(err):
			seen.see(nil, e.Identity, e.Duration)
			return nil
		case err != nil:
			return err
		}
		seen.see(lease, e.Identity, e.Duration)
		return nil
	}
	return nil
}

// attempt reads the lease if look is set, and takes the lease if that is allowed. It tries
// at most twice: a server may refuse each try.
func (e *election) attempt(ctx context.Context, seen *observation, look bool) (*held, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, e.Duration, fmt.Errorf("no answer within %s", e.Duration))
	defer cancel()
	for again := false; ; again = true {
		if look {
			lease, err := e.leases.Get(ctx, e.Name)
			if err != nil && !apierrors.IsNotFound(err) {
				return nil, err
			}
			seen.see(lease, e.Identity, e.Duration)
			e.asked = false
		}
		if time.Until(seen.takeable()) > 0 {
			return nil, nil
		}
		got, err := e.take(ctx, seen.lease)
		status := apierrors.APIStatus(nil)
		e.asked = err != nil && !errors.As(err, &status)
		// Another process was quicker, or the known state is stale.
		gone := seen.lease != nil && apierrors.IsNotFound(err)
		if look = gone || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err); !look || again {
			return got, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// take writes this process into the lease as it was last seen. The server refuses if the
// lease has changed since.
func (e *election) take(ctx context.Context, was *coordinationv1.Lease) (*held, error) {
	from := e.now() // other processes count from the answer, which is later
	lease := claimed(was, e.Identity, e.Duration, from.wall)
	var err error
	if was == nil {
		lease.Namespace, lease.Name = e.Namespace, e.Name
		lease, err = e.leases.Create(ctx, lease)
	} else {
		lease, err = e.leases.Update(ctx, lease)
	}
	if err != nil {
		return nil, err
	}
	return &held{lease, from.add(e.Duration - e.Margin)}, nil
}

func (e *election) now() instant {
	return instant{time.Now(), e.wall().Round(0)}
}

// watch sends each state of the lease; the latest replaces earlier ones. The watch uses
// the connection of all other requests. If that hangs, the lease is read when it expires.
func (e *election) watch(ctx context.Context, changes chan *coordinationv1.Lease) {
	leases := kube.For[coordinationv1.Lease](e.Client).In(e.Namespace)
	for ev, err := range leases.Fielded("metadata.name=" + e.Name).Watch(ctx) {
		switch {
		case err != nil:
			// The lease is still taken when it expires, but its release is not seen.
			e.Logger.Warn("cannot watch the lease", "error", err)
			continue
		case ev.Type == kube.Recovered:
			e.Logger.Info("the watch of the lease succeeds again")
			continue
		case ev.Type == kube.Synced:
			continue
		case ev.Type == kube.Deleted:
			ev.Object = nil
		}
		select {
		case <-changes:
		default:
		}
		changes <- ev.Object
	}
}
