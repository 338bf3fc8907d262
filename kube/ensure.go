package kube

import (
	"context"
	"crypto/sha256"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube/internal/intent"
)

// Ensure is [View.Apply] for a reconcile, which applies the same again and again:
// it costs no request if a store of this client, of the same type and kind, shows
// that nothing would change. That is so if the last thing that this process
// applied to the object says the same, every field that the field manager owns
// since has the value that it had then, and no other process has applied other
// fields in its name. It returns the object as the store has it.
//
// As with Apply, fields that others added stay, such as a key that somebody added to a
// Secret: where an object must hold nothing else, use [Resource.Update] or [View.Modify].
// Fields of the manager that others changed or removed are put back. The first Ensure of
// an object in a process is always an Apply. So is an Ensure without a store, an Ensure
// that sets a field that the server does not show, such as the stringData of a Secret,
// and a dry run.
//
// A child, which names its controller (see [SetController]), takes the place of no
// object of its name that the store shows to belong to another controller, nor of
// one without any, unless that has all the labels of the child: such a one was
// orphaned, or is meant to be taken over. The error wraps [ErrTaken].
//
// Caveat: a store learns of changes a moment later. A change by somebody else that
// the store has not seen yet is not put back by this call, but by the one that the
// change itself leads to where the kind is watched.
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

// EnsureStatus is [View.ApplyStatus] for a reconcile, which writes the same status
// again and again: it costs no request if a store of this client, of the same type
// and kind, shows that nothing would change. That is so if the status is as the
// store has it, or if it is what this process last applied to the object and the
// store shows no other value in a field that the field manager owns since. It is not
// so if another process has applied other fields in the name of the field manager.
//
// A status that somebody else edits is put back. An empty status is written once,
// so that there is one. It is not written again however often it is ensured. Where
// no store runs, and for dry runs, EnsureStatus is ApplyStatus.
//
// Caveat: the first one in a process compares values alone. A field that an earlier
// release of the program set, and that T does not name, stays until the status
// changes.
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

// ensures sends an apply that a table is to remember.
func ensures[T any](ctx context.Context, v View[T], req *request, noted *ensuring, uid types.UID) (*T, error) {
	req.ensures = true
	done := false
	defer func() {
		if !done { // a function of the program may have broken it off
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
