package kube

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Until waits until an object exists and meets a condition, and returns the object in
// that state. It waits until ctx ends; the error then describes the last seen state. The
// condition owns the objects that it gets. Its counterparts are UntilWithSync of
// client-go and await_condition of kube-rs.
func (r Reader[T]) Until(ctx context.Context, name string, holds func(*T) bool) (*T, error) {
	o, err := r.handle.await(ctx, name, func(o object) (bool, string) {
		switch {
		case o == nil:
			return false, "it does not exist"
		case holds(typed[T](o)):
			return true, ""
		}
		return false, "the condition does not hold"
	})
	return typed[T](o), err
}

// UntilGone waits until no object has the name, or until the object with the name has
// another uid than at the start of the wait. Its counterpart is is_deleted of kube-rs's
// wait conditions.
func (r Reader[T]) UntilGone(ctx context.Context, name string) error {
	return r.handle.untilGone(ctx, name)
}

func (h handle) untilGone(ctx context.Context, name string) error {
	first := h.newObject()
	err := h.get(ctx, name, first)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	uid := first.GetUID()
	_, err = h.await(ctx, name, func(o object) (bool, string) {
		if o == nil || o.GetUID() != uid {
			return true, ""
		}
		return false, fmt.Sprintf("the finalizers %q keep it", o.GetFinalizers())
	})
	return err
}

// await watches one object until ok returns true. While there is no object, ok gets nil.
func (h handle) await(ctx context.Context, name string, ok func(object) (bool, string)) (object, error) {
	req, err := h.one(ctx, "wait for", "", name)
	if err != nil {
		return nil, err
	}
	var now object
	var trouble error
	last := "no state of the object was read"
	field := "metadata.name=" + name
	if h.selector.field != "" {
		field += "," + h.selector.field
	}
	for ev, err := range h.fielded(field).watch(ctx) {
		if trouble = err; err != nil {
			continue
		}
		switch {
		case ev.kind == Recovered:
			continue
		case ev.kind == Deleted:
			now = nil
		case ev.kind != Synced:
			now = ev.object
			// If the condition is met, no sync mark is needed: the object exists.
			if done, _ := ok(now); done {
				return now, nil
			}
			continue
		}
		done, why := ok(now)
		if done {
			return now, nil
		}
		last = why
	}
	err = context.Cause(ctx)
	if trouble != nil {
		return nil, req.wrap(fmt.Errorf("%w: %w", err, trouble))
	}
	if now != nil {
		_, last = ok(now)
	}
	return nil, req.wrap(fmt.Errorf("%w: %s", err, last))
}
