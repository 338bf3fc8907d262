package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
)

// Until waits until an object exists and meets a condition, and returns the object in
// that state. It waits until ctx ends; the error then describes the last seen state. The
// condition owns the objects that it gets. Its counterparts are UntilWithSync of
// client-go and await_condition of kube-rs.
func (r Reader[T]) Until(ctx context.Context, name string, holds func(*T) bool) (*T, error) {
	o, err := r.base().await(ctx, name, func(o object) bool { return o != nil && holds(typed[T](o)) }, unmet)
	return typed[T](o), err
}

// unmet describes an object whose condition does not hold: by its status and nothing else,
// because the rest may be large or secret.
func unmet(o object) string {
	if o == nil {
		return "it does not exist"
	}
	const limit = 500
	why := "the condition does not hold"
	var is struct{ Status json.RawMessage }
	text, err := json.Marshal(o)
	if err != nil || json.Unmarshal(text, &is) != nil || len(is.Status) <= len("{}") {
		return why
	}
	status := string(is.Status)
	if len(status) > limit {
		status = strings.ToValidUTF8(status[:limit], "") + "…"
	}
	return why + ", the status is " + status
}

// UntilGone waits until no object has the name, or until the object with the name has
// another uid than at the start of the wait. Its counterpart is is_deleted of kube-rs's
// wait conditions.
func (r Reader[T]) UntilGone(ctx context.Context, name string) error {
	return r.base().untilGone(ctx, name)
}

func (h *handle) untilGone(ctx context.Context, name string) error {
	if _, err := h.one(ctx, "wait for", "", name); err != nil {
		return err
	}
	h = named(h, Key{h.namespace(), name}) // an object that leaves the selectors is not gone
	first := h.newObject()
	err := h.get(ctx, name, first)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	uid := first.GetUID()
	gone := func(o object) bool { return o == nil || o.GetUID() != uid }
	_, err = h.await(ctx, name, gone, func(o object) string {
		return fmt.Sprintf("the finalizers %q keep it", o.GetFinalizers())
	})
	return err
}

// errWatchEnded is the error of a watch that ended while its context lasted, and gave no reason.
var errWatchEnded = errors.New("the watch has ended")

// await watches one object until ok returns true. If ctx ends before, why describes the
// object for the error. While there is no object, ok and why get nil.
func (h *handle) await(ctx context.Context, name string, ok func(object) bool, why func(object) string) (object, error) {
	req, err := h.one(ctx, "wait for", "", name)
	if err != nil {
		return nil, err
	}
	var now object
	var trouble error
	seen := false
	named := fields.OneTermEqualSelector("metadata.name", name)
	for ev, err := range h.fieldedBy(named).watch(ctx) {
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
		}
		seen = true
		if ok(now) { // no sync mark is needed to know an object
			return now, nil
		}
	}
	err = context.Cause(ctx)
	switch {
	case err == nil: // the watch ended by itself
		return nil, req.wrap(cmp.Or(trouble, errWatchEnded))
	case trouble != nil:
		return nil, req.wrap(fmt.Errorf("%w: %w", err, trouble))
	}
	last := "no state of the object was read"
	if seen {
		last = why(now)
	}
	return nil, req.wrap(fmt.Errorf("%w: %s", err, last))
}
