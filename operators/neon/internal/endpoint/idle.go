package endpoint

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

// fresh is the age up to which an answer of a compute says that nobody uses it.
const fresh = 3 * time.Second

// The phases of an endpoint.
const (
	starting   = "Starting"
	active     = "Running"
	suspending = "Suspending"
	suspended  = "Suspended"
)

// coarse is the precision of status.lastActive: finer would cost a write for each query.
const coarse = 5 * time.Minute

// resume ends the suspension of an idle endpoint if its annotation asks for that.
func resume(e *api.NeonEndpoint) {
	asked, err := time.Parse(time.RFC3339, e.Annotations[api.Resume])
	if err == nil && !e.Status.IdleSince.IsZero() && !asked.Before(e.Status.IdleSince.Time) {
		e.Status.IdleSince = metav1.Time{}
	}
	if e.Spec.SuspendAfterSeconds == 0 {
		e.Status.IdleSince = metav1.Time{}
	}
}

// idleLimit is the time without queries after which an endpoint is idle, 0 for never.
func idleLimit(e *api.NeonEndpoint) time.Duration {
	return time.Duration(e.Spec.SuspendAfterSeconds) * time.Second
}

// report shows the state of the compute in the endpoint's status, and begins its suspension
// if it is idle.
func (op *Operator) report(e *api.NeonEndpoint, set *appsv1.StatefulSet, is *compute, runs bool, now time.Time) {
	ran := e.Status.Phase == active
	pods := set != nil && set.Status.Replicas > 0
	switch {
	case runs && is != nil && is.status.Status == upstream.ComputeRunning:
		e.Status.Phase = active
	case runs:
		e.Status.Phase = starting
	case pods:
		e.Status.Phase = suspending
	default:
		e.Status.Phase = suspended
	}
	if is == nil || is.status.Status != upstream.ComputeRunning {
		if e.Status.Phase == suspended {
			e.Status.Timeline = ""
		}
		return
	}
	e.Status.Timeline, e.Status.Applied = is.status.Timeline, is.applied
	last := is.lastActive()
	if !ran {
		last = now // a compute that took long to start has not been idle
	}
	if at, _ := op.moments.of(kube.KeyOf(e)); at.After(last) {
		last = at // its client may not be seen yet
	}
	if ran && last.Before(e.Status.LastActive.Time) {
		last = e.Status.LastActive.Time
	}
	if !ran || last.Sub(e.Status.LastActive.Time) >= coarse {
		e.Status.LastActive = metav1.NewTime(last)
	}
	limit := idleLimit(e)
	// A session may have begun since the compute was asked.
	if limit > 0 && now.Sub(last) >= limit && now.Sub(is.seen) < fresh {
		e.Status.IdleSince = metav1.NewTime(now)
	}
}
