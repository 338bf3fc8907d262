package kube

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/internal/glance"
	"github.com/pintle-go/pintle/internal/written"
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
// A store that is narrowed by labels may hide an object of the child's name. So Ensure
// asks the server, by a list, if such a store does not have the object: as a rule, once
// for each child that is made. No such check is made without a store, by a store that is
// narrowed by fields, or if the object lacks the labels of the handle: give each child the
// labels that its handle asks for.
//
// If somebody has removed the managedFields of the object, the server does not know any more
// what the field manager applied. Ensure then removes the fields that this process has
// applied before, by an Ensure with a store, and no longer wants. If it does not know them,
// as after a restart, fields may stay, and the client's logger gets a warning.
//
// If others change the fields again and again, and Ensure puts them back, a controller reports
// that. It names the field managers, for which Ensure asks the server then, by a list.
//
// Caveat: a store learns of changes a moment later. Somebody else may have made a change
// that the store has not seen yet. This call does not put it back. Where the kind is
// watched, the change itself leads to another call, which puts it back.
func (v View[T]) Ensure(ctx context.Context, o *T) (*T, error) {
	if o == nil {
		return v.Apply(ctx, o)
	}
	if asked := glance.Asked(ctx); asked != nil {
		if !v.base().glance(asObject(o), asked) {
			return nil, glance.ErrUnknown
		}
		return nil, nil
	}
	is := new(T)
	return result(is, v.base().ensure(ctx, asObject(o), asObject(is)))
}

func (h *handle) ensure(ctx context.Context, o, is object) error {
	if o.GetResourceVersion() != "" || len(o.GetManagedFields()) > 0 || h.write.DryRun {
		return h.apply(ctx, o, is)
	}
	req, err := h.applyRequest(ctx, o, intent.Spec, nil)
	if err != nil {
		return err
	}
	key := Key{req.namespace, req.name}
	t := h.client.stores.showing(h, key, o)
	if t == nil {
		return h.sendApply(ctx, req, o.GetUID(), ensured{}, is)
	}
	id := part{key: key}
	wanted := h.digest(req)
	same, others, err := t.unchanged(ctx, id, wanted, is)
	if err != nil {
		return req.wrap(err)
	}
	if same {
		return nil
	}
	if err := t.takes(ctx, key, o); err != nil {
		return req.wrap(err)
	}
	return h.ensures(ctx, req, t.ensured.begin(id, wanted, req, others), o.GetUID(), is)
}

// ensures sends an apply that a table has to remember.
func (h *handle) ensures(
	ctx context.Context, req *request, noted *ensuring, uid types.UID, answer object,
) error {
	req.ensures = true
	done := false
	defer func() {
		if !done { // a function of the program may have broken the apply off
			noted.failed()
		}
	}()
	undone := noted.undone(ctx, time.Now()) // the apply will take the fields over
	if err := h.sendApply(ctx, req, uid, noted.before, answer); err != nil {
		return err
	}
	noted.done(h.client, answer)
	done = true
	if noted.restores(answer) && len(undone) > 0 {
		written.Tell(ctx, written.Write{
			Kind: req.resource.Kind, Namespace: req.namespace, Name: req.name, Undone: undone,
		})
	}
	return nil
}
