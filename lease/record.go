package lease

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What is written into a Lease, as functions from one record to the next. Times
// in it are for people: nobody compares them with a clock of their own.

// claimed returns the lease as its new holder writes it. was is nil if there
// was none.
func claimed(was *coordinationv1.Lease, identity string, duration time.Duration, now time.Time) *coordinationv1.Lease {
	o := new(coordinationv1.Lease)
	if was != nil {
		o = was.DeepCopy()
	}
	transitions := value(o.Spec.LeaseTransitions)
	if was != nil && holder(was) != identity {
		transitions++
	}
	at := later(o.Spec.RenewTime, now)
	o.Spec.HolderIdentity = &identity
	o.Spec.LeaseDurationSeconds = seconds(duration)
	o.Spec.AcquireTime, o.Spec.RenewTime = at, at
	o.Spec.LeaseTransitions = &transitions
	return o
}

// renewed returns the lease as its holder renews it: always another than it was,
// because the others wait for a change.
func renewed(was *coordinationv1.Lease, duration time.Duration, now time.Time) *coordinationv1.Lease {
	o := was.DeepCopy()
	o.Spec.LeaseDurationSeconds = seconds(duration)
	o.Spec.RenewTime = later(o.Spec.RenewTime, now)
	return o
}

// released returns the lease as its holder gives it up.
func released(was *coordinationv1.Lease, now time.Time) *coordinationv1.Lease {
	o := was.DeepCopy()
	nobody := ""
	o.Spec.HolderIdentity = &nobody
	// An implementation that does not know of releases waits no longer than it must.
	o.Spec.LeaseDurationSeconds = seconds(time.Second)
	o.Spec.RenewTime = later(o.Spec.RenewTime, now)
	return o
}

// holder returns who holds a lease, empty if nobody does or there is none.
func holder(o *coordinationv1.Lease) string {
	if o == nil {
		return ""
	}
	return value(o.Spec.HolderIdentity)
}

// lasts returns how long the holder of a lease may act after a renewal.
func lasts(o *coordinationv1.Lease, otherwise time.Duration) time.Duration {
	if s := value(o.Spec.LeaseDurationSeconds); s > 0 {
		return time.Duration(s) * time.Second
	}
	return otherwise
}

// sameRecord reports that the holder has not renewed one since the other.
func sameRecord(a, b *coordinationv1.Lease) bool {
	return a != nil && b != nil && a.UID == b.UID && equality.Semantic.DeepEqual(a.Spec, b.Spec)
}

// seconds rounds up: those who wait for the holder wait no shorter than it acts.
func seconds(d time.Duration) *int32 {
	s := int32((d + time.Second - 1) / time.Second)
	return &s
}

// later returns now, as the API has it, or a moment after was if a clock that
// was set back says it is not later.
func later(was *metav1.MicroTime, now time.Time) *metav1.MicroTime {
	at := metav1.NewMicroTime(now.Truncate(time.Microsecond))
	if was != nil && !at.After(was.Time) {
		at = metav1.NewMicroTime(was.Add(time.Microsecond))
	}
	return &at
}

func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
