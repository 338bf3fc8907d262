package controller

import (
	"context"
	"fmt"

	"github.com/pintle-go/pintle/kube"
)

// tellRemoved tells the controller of the objects of the key that are gone.
func (e *engine[T]) tellRemoved(ctx context.Context, a *attempt[T]) error {
	for _, c := range a.removed {
		o, err := kube.DecodeNow[T](c)
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
