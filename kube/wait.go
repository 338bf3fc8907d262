package kube

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Until waits until an object exists and a condition holds of it, and returns it
// as it then was. It waits as long as ctx lets it; the error then says what was
// last seen. The condition gets objects of its own.
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

// UntilGone waits until there is no object of the name, or one with another
// uid than the object had when the wait began.
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
		return false, fmt.Sprintf("finalizers %q hold it", asObject(o).GetFinalizers())
	})
	return err
}

// await watches one object until ok, which gets nil while there is none.
func (r Reader[T]) await(ctx context.Context, name string, ok func(*T) (bool, string)) (*T, error) {
	req, err := r.one(ctx, "wait for", "", name)
	if err != nil {
		return nil, err
	}
	var now *T
	var trouble error
	last := "nothing was seen of it"
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
				// A condition that holds needs no sync mark: the object exists.
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
