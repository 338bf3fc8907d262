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
	return r.await(ctx, name, func(o *T) (bool, string) {
		switch {
		case o == nil:
			return false, "it does not exist"
		case holds(o):
			return true, ""
		}
		return false, "the condition does not hold"
	})
}

// UntilGone waits until no object has the name, or until the object with the name has
// another uid than at the start of the wait. Its counterpart is is_deleted of kube-rs's
// wait conditions.
func (r Reader[T]) UntilGone(ctx context.Context, name string) error {
	first, err := r.Get(ctx, name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	uid := asObject(first).GetUID()
	_, err = r.await(ctx, name, func(o *T) (bool, string) {
		if o == nil || asObject(o).GetUID() != uid {
			return true, ""
		}
		return false, fmt.Sprintf("the finalizers %q keep it", asObject(o).GetFinalizers())
	})
	return err
}

// await watches one object until ok returns true. While there is no object, ok gets nil.
func (r Reader[T]) await(ctx context.Context, name string, ok func(*T) (bool, string)) (*T, error) {
	req, err := r.one(ctx, "wait for", "", name)
	if err != nil {
		return nil, err
	}
	var now *T
	var trouble error
	last := "no state of the object was read"
	field := "metadata.name=" + name
	if r.selector.field != "" {
		field += "," + r.selector.field
	}
	for ev, err := range r.Fielded(field).Watch(ctx) {
		if trouble = err; err != nil {
			continue
		}
		switch {
		case ev.Type == Recovered:
			continue
		case ev.Type == Deleted:
			now = nil
		case ev.Type != Synced:
			now = ev.Object
			if now != nil {
				// If the condition is met, no sync mark is needed: the object exists.
				if done, _ := ok(now); done {
					return now, nil
				}
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
