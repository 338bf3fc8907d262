package controller

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pintle-go/pintle/kube"
)

// An object may leave the selection of For, by its labels or fields, while it carries a
// finalizer of the controller. It may also have left before the program was started. The
// store of For does not show its deletion then. So a controller with finalizers, whose
// selection objects can leave, also keeps the metadata of all objects in the namespaces of
// For. An object outside the selection is not reconciled. When it is deleted, it is cleaned
// up, as it would be inside.

// openDeparted opens the store of the metadata, if objects can leave with a finalizer.
func (e *engine[T]) openDeparted() {
	all, leave := kube.Unselected(e.For)
	if leave && len(e.finalizers()) > 0 {
		e.outside = e.opened(all, " metadata")
	}
}

// followDeparted asks for the objects outside the selection that are deleted, until ctx
// ends. It closes synced when it has asked for those that were there at the start.
func (e *engine[T]) followDeparted(ctx context.Context, d *dispatcher, synced chan<- struct{}) {
	for c := range e.outside.Changes(ctx) {
		switch {
		case c.Type == kube.Synced:
			close(synced)
		case c.Type != kube.Deleted && c.Deleting() && e.isDeparted(ctx, c):
			d.ask(request{key: c.Key, priority: live, cause: Cause{Reason: Changed, Change: c}})
		}
	}
}

// isDeparted reports whether an object that is being deleted has a finalizer of the
// controller, and is outside the selection. When an object leaves later, follow asks for it.
func (e *engine[T]) isDeparted(ctx context.Context, c kube.Change) bool {
	o, err := kube.DecodeNow[kube.Object](c)
	if err != nil || !e.holds(o) {
		return false
	}
	_, err = kube.Get[T](ctx, e.objects, c.Key)
	return apierrors.IsNotFound(err)
}

// departed returns an object outside the selection that is to be cleaned up. If there is
// none, it returns the error that the object of the key is not in the store of For.
func (e *engine[T]) departed(ctx context.Context, key kube.Key, notFound error) (*T, error) {
	known, err := kube.Get[kube.Object](ctx, e.outside, key)
	switch {
	case apierrors.IsNotFound(err), err == nil && (known.DeletionTimestamp == nil || !e.holds(known)):
		return nil, notFound
	case err != nil:
		return nil, err
	}
	o, err := lookUp(ctx, e.For, key)
	if err == nil && o == nil || o != nil && meta(o).GetDeletionTimestamp() == nil {
		return nil, notFound
	}
	return o, err
}
