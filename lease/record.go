package lease

import (
	"fmt"
	"strings"
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
	return unclaimed(o) // its own claim is met, and another's has expired
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

// claimAnnotation holds the claim of a process that asks the holder to step down.
const claimAnnotation = "lease.pintle.dev/claim"

// claim is what a process with TakeOver writes into a lease that another one holds.
// It lasts for a time after each renewal, by the clocks of those who see it change.
type claim struct {
	text     string // as in the annotation, which changes with every renewal
	identity string
	lasts    time.Duration
}

// claimOf returns the claim to a lease: the zero value if there is none, or if
// nobody can tell what it says.
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

// maxClaim bounds how long a claim lasts that nobody renews.
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
