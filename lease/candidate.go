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

// observation is what a candidate knows of the lease. The candidate's own clock
// alone tells that a holder has gone, or a claimant: the record has not changed for
// as long as it lasts.
type observation struct {
	lease *coordinationv1.Lease // nil: there is none
	free  time.Time             // when it may be taken, unless it changes
	// claim is the claim of another process, which keeps others from taking the
	// lease until unclaimed.
	claim     claim
	unclaimed time.Time
}

// see takes in a lease, or that there is none.
func (o *observation) see(lease *coordinationv1.Lease, identity string, otherwise time.Duration) {
	was, now := o.lease, time.Now()
	o.lease = lease
	switch {
	case lease == nil:
		// One that was deleted may still be held by who held it.
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

// takeable returns when this process may take the lease, unless that changes.
func (o *observation) takeable() time.Time {
	if o.unclaimed.After(o.free) {
		return o.unclaimed
	}
	return o.free
}

// held is a lease that this process has got.
type held struct {
	lease *coordinationv1.Lease
	until instant
}

// acquire waits until the lease is got, or, and then it returns nil, until ctx
// ends. All it started has ended when it returns.
func (e *election) acquire(ctx context.Context) (*held, error) {
	var watching sync.WaitGroup
	defer watching.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes := make(chan *coordinationv1.Lease, 1)
	watching.Go(func() { e.watch(ctx, changes) })

	e.asked, e.claims = false, false
	var seen observation
	var claim time.Time // when the claim is to be renewed
	timer := time.NewTimer(0)
	defer timer.Stop()
	look := true // at the server, because what is known may be old
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
			return nil, err // no request was made, and none ever will
		case ctx.Err() != nil:
			continue
		case err != nil && !failing:
			e.Logger.Warn("cannot get at the lease; trying again", "error", err)
		case err == nil && failing:
			e.Logger.Info("can get at the lease again")
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

// giveBack releases the lease if a request whose answer nobody waited for was
// executed, and withdraws a claim: the others would wait for their expiry.
func (e *election) giveBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseWithin)
	defer cancel()
	for {
		lease, err := e.leases.Get(ctx, e.Name)
		if err == nil && claimOf(lease).identity == e.Identity {
			lease, err = e.leases.Update(ctx, unclaimed(lease))
		}
		if apierrors.IsConflict(err) && ctx.Err() == nil {
			continue
		}
		if err == nil {
			e.release(ctx, lease)
		}
		return
	}
}

// mayClaim reports that this process should ask the holder to step down. If several
// want to, the first does.
func (e *election) mayClaim(seen *observation) bool {
	return e.TakeOver && holder(seen.lease) != "" && time.Until(seen.unclaimed) <= 0
}

// claim asks the holder to step down, or goes on asking.
func (e *election) claim(ctx context.Context, seen *observation) error {
	ctx, cancel := context.WithTimeoutCause(ctx, e.Duration, fmt.Errorf("no answer within %s", e.Duration))
	defer cancel()
	for e.mayClaim(seen) {
		if !e.claims {
			e.Logger.Info("asking the holder of the lease to step down", "holder", holder(seen.lease))
		}
		e.claims = true
		lease, err := e.leases.Update(ctx, claiming(seen.lease, e.Identity, e.Duration, e.wall()))
		if apierrors.IsConflict(err) { // the holder has renewed it
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

// attempt looks at the lease, if it shall, and takes it if it may.
func (e *election) attempt(ctx context.Context, seen *observation, look bool) (*held, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, e.Duration, fmt.Errorf("no answer within %s", e.Duration))
	defer cancel()
	for {
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
		// Somebody was quicker, or what was known is old.
		gone := seen.lease != nil && apierrors.IsNotFound(err)
		if look = gone || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err); !look {
			return got, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// take writes this process into the lease as it was seen: the server refuses if
// it is another by now.
func (e *election) take(ctx context.Context, was *coordinationv1.Lease) (*held, error) {
	from := e.now() // the others count from the answer, which is later
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

// watch sends what becomes of the lease, the latest only. It goes over the
// connection of all else: if that hangs, the lease is looked at when it expires.
func (e *election) watch(ctx context.Context, changes chan *coordinationv1.Lease) {
	leases := kube.For[coordinationv1.Lease](e.Client).In(e.Namespace)
	for ev, err := range leases.Fielded("metadata.name=" + e.Name).Watch(ctx) {
		switch {
		case err != nil:
			// The lease is still taken when it expires, but not at its release.
			e.Logger.Warn("cannot watch the lease", "error", err)
			continue
		case ev.Type == kube.Recovered:
			e.Logger.Info("watch of the lease works again")
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
