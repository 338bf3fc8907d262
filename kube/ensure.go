package kube

import (
	"context"
	"crypto/sha256"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube/internal/intent"
)

// Ensure is [View.Apply] for a reconcile, which applies the same again and again. It
// costs no request if a store of this client, of the same type and kind, shows that
// nothing would change. The store shows that if three conditions hold:
//
//   - The last apply of this process to the object says the same.
//   - Every field that the field manager owns since that apply has the value that it had
//     then.
//   - No other process has applied other fields in the manager's name.
//
// Ensure returns the object as the store has it. Its counterpart is controller-runtime's
// controllerutil.CreateOrUpdate.
//
// As with Apply, fields that others added stay, such as a key that somebody added to a
// Secret: where an object must hold nothing else, use [Resource.Update] or [View.Modify].
// If others changed or removed fields of the manager, Ensure puts these fields back. The
// first Ensure of an object in a process is always an Apply. So is an Ensure without a
// store, an Ensure that sets a field that the server does not show, such as the
// stringData of a Secret, and a dry run.
//
// A child is an object that names its controller (see [SetController]). It does not take
// the place of an object of its name if the store shows that this object belongs to
// another controller. Nor does it take the place of an object without a controller,
// unless that object has all labels of the child: such an object was orphaned, or is
// meant to be taken over. The error of a refused Ensure wraps [ErrTaken].
//
// Caveat: a store learns of changes a moment later. Somebody else may have made a change
// that the store has not seen yet. This call does not put it back. Where the kind is
// watched, the change itself leads to another call, which puts it back.
func (v View[T]) Ensure(ctx context.Context, o *T) (*T, error) {
	acc := asObject(o)
	if o == nil || acc.GetResourceVersion() != "" || len(acc.GetManagedFields()) > 0 || v.write.DryRun {
		return v.Apply(ctx, o)
	}
	req, err := v.applyRequest(ctx, acc, intent.Spec)
	if err != nil {
		return nil, err
	}
	key := Key{req.namespace, req.name}
	t := v.client.stores.showing(v.handle, key, acc)
	if t == nil {
		return v.sendApply(ctx, req, acc.GetUID())
	}
	id := part{key: key}
	wanted := sha256.Sum256(fmt.Appendf(req.body, "\n%s", req.query.Encode()))
	is := new(T)
	same, err := t.unchanged(ctx, id, wanted, asObject(is))
	if err != nil {
		return nil, req.wrap(err)
	}
	if same {
		return is, nil
	}
	if err := t.takes(ctx, key, acc); err != nil {
		return nil, req.wrap(err)
	}
	return ensures(ctx, v, req, t.ensured.begin(id, wanted, req), acc.GetUID())
}

// EnsureStatus is [View.ApplyStatus] for a reconcile, which writes the same status again
// and again. It costs no request if a store of this client, of the same type and kind,
// shows that nothing would change. The store shows that in two cases:
//
//   - The status is as the store has it.
//   - This process last applied the same status to the object, and the store shows no
//     other value in a field that the field manager owns since.
//
// Neither case holds if another process has applied other fields in the name of the field
// manager.
//
// If somebody else edits a status, EnsureStatus puts the status back. An empty status is
// written once, so that there is one. It is not written again however often it is
// ensured. Where no store runs, and for dry runs, EnsureStatus is ApplyStatus.
//
// Caveat: the first EnsureStatus of a process compares values alone. An earlier release
// of the program may have set a field that T does not name. Such a field stays until the
// status changes.
//
// In controller-runtime a reconcile compares by hand and calls Status().Update or
// Status().Patch.
func (v View[T]) EnsureStatus(ctx context.Context, o *T) error {
	acc := asObject(o)
	if o == nil || v.write.DryRun {
		return v.ApplyStatus(ctx, o)
	}
	req, err := v.applyRequest(ctx, acc, intent.Status)
	if err != nil {
		return err
	}
	id := part{Key{req.namespace, req.name}, true}
	t := v.client.stores.showing(v.handle, id.key, acc)
	if t == nil {
		return v.ApplyStatus(ctx, o)
	}
	wanted := sha256.Sum256(fmt.Appendf(req.body, "\n%s", req.query.Encode()))
	same, err := t.statusShown(ctx, id.key, req.body, acc)
	same = same && !t.ensured.foreign(id)
	if err == nil && !same {
		same, err = t.unchanged(ctx, id, wanted, asObject(new(T)))
	}
	if err != nil {
		return req.wrap(err)
	}
	if same {
		return nil
	}
	_, err = ensures(ctx, v, req, t.ensured.begin(id, wanted, req), acc.GetUID())
	return err
}

// ensures sends an apply that a table has to remember.
func ensures[T any](ctx context.Context, v View[T], req *request, noted *ensuring, uid types.UID) (*T, error) {
	req.ensures = true
	done := false
	defer func() {
		if !done { // a function of the program may have broken the apply off
			noted.failed()
		}
	}()
	is, err := v.sendApply(ctx, req, uid)
	if err != nil {
		return is, err
	}
	noted.done(v.client, asObject(is))
	done = true
	return is, nil
}
