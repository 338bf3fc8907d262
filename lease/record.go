package lease

import (
	"fmt"
	"math"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This file has the contents of a Lease as functions from one record to the next. The
// times in a record are for people: no process compares them with its own clock.

// claimed returns the lease as its next holder writes it. was is nil if the lease does
// not exist.
func claimed(was *coordinationv1.Lease, identity string, duration time.Duration, now time.Time) *coordinationv1.Lease {
	o := new(coordinationv1.Lease)
	if was != nil {
		o = was.DeepCopy()
	}
	transitions := value(o.Spec.LeaseTransitions)
	if was != nil && holder(was) != identity && transitions < math.MaxInt32 {
		transitions++
	}
	at := later(o.Spec.RenewTime, now)
	o.Spec.HolderIdentity = &identity
	o.Spec.LeaseDurationSeconds = seconds(duration)
	o.Spec.AcquireTime, o.Spec.RenewTime = at, at
	o.Spec.LeaseTransitions = &transitions
	return unclaimed(o) // its own claim is fulfilled, and another's has expired
}

// renewed returns the lease as its holder renews it. The result always differs from was,
// because other processes wait for a change.
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
	// An implementation that does not know of releases then waits no longer than it must.
	o.Spec.LeaseDurationSeconds = seconds(time.Second)
	o.Spec.RenewTime = later(o.Spec.RenewTime, now)
	return o
}

// claimAnnotation holds the claim of a process that asks the holder to step down.
const claimAnnotation = "lease.pintle.dev/claim"

// claim is the claim that a process with TakeOver writes into a lease that another
// process holds. It lasts for a time after each renewal. Each process that sees it change
// measures that time by its own clock.
type claim struct {
	text     string // as in the annotation; it changes with every renewal
	identity string
	lasts    time.Duration
}

// claimOf returns the claim in a lease. It returns the zero value if the lease has no
// claim, or none that can be parsed.
func claimOf(o *coordinationv1.Lease) claim {
	if o == nil {
		return claim{}
	}
	c := claim{text: o.Annotations[claimAnnotation]}
	words := strings.SplitN(c.text, " ", 3) // the duration, the time, the identity
	if len(words) < 3 {
		return claim{}
	}
	var err error
	if c.lasts, err = time.ParseDuration(words[0]); err != nil || c.lasts <= 0 {
		return claim{}
	}
	c.lasts = min(c.lasts, maxClaim)
	c.identity = words[2]
	return c
}

// maxClaim is the longest time that a claim lasts without a renewal.
const maxClaim = 5 * time.Minute

// claiming returns the lease with the claim of a process.
func claiming(was *coordinationv1.Lease, identity string, duration time.Duration, now time.Time) *coordinationv1.Lease {
	o := was.DeepCopy()
	if o.Annotations == nil {
		o.Annotations = make(map[string]string)
	}
	o.Annotations[claimAnnotation] = fmt.Sprintf("%s %s %s", duration, now.UTC().Format(time.RFC3339Nano), identity)
	return o
}

// unclaimed returns the lease without a claim.
func unclaimed(was *coordinationv1.Lease) *coordinationv1.Lease {
	o := was.DeepCopy()
	delete(o.Annotations, claimAnnotation)
	return o
}

// holder returns the holder of a lease. It is empty if there is no holder or no lease.
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

// sameRecord reports whether the holder has not renewed the lease between the two
// records.
func sameRecord(a, b *coordinationv1.Lease) bool {
	return a != nil && b != nil && a.UID == b.UID && equality.Semantic.DeepEqual(a.Spec, b.Spec)
}

// seconds rounds up, so that other processes wait at least as long as the holder acts.
func seconds(d time.Duration) *int32 {
	s := int32((d + time.Second - 1) / time.Second)
	return &s
}

// later returns now in the API's precision, or a moment after was if a clock was set back
// and now is not later.
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
