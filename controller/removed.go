package controller

import (
	"context"
	"fmt"

	"github.com/pintle-go/pintle/kube"
)

// tellRemoved tells the controller of the objects of the key that are gone.
func (e *engine[T]) tellRemoved(ctx context.Context, a *attempt[T]) error {
	for _, c := range a.removed {
		_, o, err := kube.Decode[T](c)
		decoded := err == nil && o != nil
		if decoded {
			err = protect(func() error { return e.Gone(ctx, o) }) // a panic is a failure like others
		}
		switch {
		case err == nil:
		case !decoded, IsTerminal(err), a.failures+1 >= goneTries && e.recreated(ctx, a.key):
			// A new object of the name must not wait for this for ever.
			a.run.logger().ErrorContext(ctx, "handling of the object's removal failed; it is not retried", "error", err)
		default:
			return fmt.Errorf("handle the object's removal: %w", err)
		}
		a.told++
	}
	return nil
}

// goneTries is how often in a row a key may fail before Gone is given up for the sake of a
// new object of the name.
const goneTries = 5

// recreated reports that there is a new object of a key.
func (e *engine[T]) recreated(ctx context.Context, key kube.Key) bool {
	o, err := kube.Get[T](ctx, e.objects, key)
	return err == nil && !e.ignores(o)
}

// skips reports that a turn's only causes are writes of the key's last reconciles, and
// that those reconciles know the result. For a child, the answer to the write has shown
// the result. For the object itself, the status and the finalizers are the controller's
// own. skips then sets the next request to the one that was next before.
func (e *engine[T]) skips(a *attempt[T]) bool {
	if a.failures > 0 || a.causes.more > 0 || len(a.causes.list) == 0 || len(a.removed) > 0 {
		return false
	}
	for _, c := range a.causes.list {
		if c.Reason != Changed || c.Change.Type != kube.Modified && c.Change.Type != kube.Added || !a.before.made(c) {
			return false
		}
		if c.Change.Kind() == e.gvk.Kind && !knownByHeart(c.Change) {
			return false
		}
	}
	if a.causes.timed != "" {
		a.next = &request{
			key: a.key, priority: a.priority, due: a.causes.due,
			cause: Cause{Reason: a.causes.timed, due: a.causes.due, of: a.causes.of},
		}
		if a.causes.timed == Resynced {
			a.next.priority = low
		}
	}
	a.skipped = true
	return true
}

// knownByHeart reports that a change of the reconciled object has changed only fields
// that controllers write.
func knownByHeart(c kube.Change) bool {
	fields, err := c.Fields()
	if err != nil || c.Type != kube.Modified {
		return false
	}
	for _, f := range fields {
		if !within(f, "status") && !within(f, "metadata.finalizers") {
			return false
		}
	}
	return true
}
