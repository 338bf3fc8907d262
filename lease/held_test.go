package lease

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

type heldTestKey struct{}

// acting returns the context of a function that holds a lease, and the end of the lease.
func acting(t *testing.T) (context.Context, func(error)) {
	until, end := context.WithCancelCause(context.WithValue(t.Context(), heldTestKey{}, "of the lease"))
	t.Cleanup(func() { end(nil) })
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), heldKey{}, until))
	t.Cleanup(cancel)
	return context.WithValue(ctx, heldTestKey{}, "of the function"), end
}

// Held keeps nothing for a call while the lease lasts.
func TestHeldKeepsNothing(t *testing.T) {
	ctx, _ := acting(t)
	const calls = 50_000
	size := func() uint64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	before := size()
	for range calls {
		Held(ctx)
	}
	if after := size(); after > before && (after-before)/calls > 20 {
		t.Errorf("each call keeps %d bytes", (after-before)/calls)
	}
	runtime.KeepAlive(ctx)
}

// The context of Held has the values of the function's context, does not end with it, and
// ends with the lease and its cause. So do contexts that are derived from it, which cost no
// goroutine.
func TestHeldEndsWithTheLease(t *testing.T) {
	ctx, end := acting(t)
	stopping, stop := context.WithCancel(ctx)
	held := Held(stopping)
	goroutines := runtime.NumGoroutine()
	derived, cancel := context.WithTimeout(held, time.Hour)
	defer cancel()
	if runtime.NumGoroutine() > goroutines {
		t.Error("a derived context costs a goroutine")
	}
	stop()
	if held.Err() != nil || derived.Err() != nil {
		t.Errorf("after a stop: %v, %v", held.Err(), derived.Err())
	}
	if value := derived.Value(heldTestKey{}); value != "of the function" {
		t.Errorf("its value is the one %v", value)
	}
	end(ErrLost)
	for name, ctx := range map[string]context.Context{"held": held, "derived": derived, "held again": Held(held)} {
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
			t.Errorf("%s: it has not ended", name)
		}
		if !errors.Is(context.Cause(ctx), ErrLost) || !errors.Is(ctx.Err(), context.Canceled) {
			t.Errorf("%s: %v, its cause is %v", name, ctx.Err(), context.Cause(ctx))
		}
	}
	if outside := Held(t.Context()); outside.Done() != nil {
		t.Error("without a lease, it may end")
	}
}

// A lease whose transitions have reached the largest number is still taken.
func TestMostTransitions(t *testing.T) {
	other, most := "other", int32(math.MaxInt32)
	was := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &other, LeaseTransitions: &most}}
	if is := *claimed(was, "me", time.Minute, time.Now()).Spec.LeaseTransitions; is != most {
		t.Errorf("after %d transitions there are %d", most, is)
	}
}

// The warning of a failed renewal says how much time is left, and not that it has passed.
func TestWarningOfARenewalSaysWhatIsLeft(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	warnOfRenewal(logger, errors.New("no answer"), 9*time.Second)
	if text := log.String(); !strings.Contains(text, "left=9s") || strings.Contains(text, "for=") {
		t.Error(text)
	}
}
