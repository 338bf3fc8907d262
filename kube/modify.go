package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pintle-go/pintle/internal/threeway"
	"github.com/pintle-go/pintle/kube/internal/wire"
)

// maxConflicts bounds how often Modify starts over.
const maxConflicts = 20

// Modify reads an object, calls change to alter it, sends the difference, and returns the
// object as the server has it. If somebody else has changed the object meanwhile, Modify
// starts over. So change may be called several times, each time with the current object.
// An error of change ends Modify. Modify sends nothing if nothing changed. Its
// counterpart is a read and a patch within client-go's retry.RetryOnConflict.
//
// Fields that T does not name are left alone, also in the items of lists. A change is an
// error if Modify would have to guess which items of a list became which, or if a merge
// patch cannot express the change. Changes of status are ignored if the kind has a status
// subresource.
func (v View[T]) Modify(ctx context.Context, name string, change func(*T) error) (*T, error) {
	o, err := v.base().modify(ctx, "", name, func(o object) error { return change(typed[T](o)) })
	return typed[T](o), err
}

// modify changes an object or, if subresource is not empty, the object's subresource.
func (h *handle) modify(
	ctx context.Context, subresource, name string, change func(object) error,
) (object, error) {
	for try := 1; ; try++ {
		o, conflict, err := h.tryModify(ctx, subresource, name, change)
		if !conflict || try == maxConflicts {
			return o, err
		}
		if serr := sleep(ctx, jitter(time.Duration(try)*5*time.Millisecond)); serr != nil {
			return nil, err
		}
	}
}

// tryModify tries once. conflict reports that somebody else changed the object first.
func (h *handle) tryModify(
	ctx context.Context, subresource, name string, change func(object) error,
) (o object, conflict bool, err error) {
	get, err := h.one(ctx, "modify", http.MethodGet, name)
	if err != nil {
		return nil, false, err
	}
	get.accept = wire.TypeJSON // fields that T does not name must be visible, so that they can be left alone
	raw, contentType, err := h.client.roundTrip(ctx, get)
	if err != nil {
		return nil, false, err
	}
	before, after := h.newObject(), h.newObject()
	err = h.decodeAnswer(get, contentType, raw, before)
	if err == nil {
		err = h.codec.Decode(wire.Raw{Bytes: raw}, after)
	}
	if err != nil {
		return nil, false, get.wrap(err)
	}
	if err := h.selected(get.resource, before); err != nil {
		return nil, false, get.wrap(err)
	}
	uid, rv := before.GetUID(), before.GetResourceVersion()
	if err := change(after); err != nil {
		return nil, false, err
	}
	patch, err := h.difference(raw, before, after)
	if err == nil && subresource != "" {
		patch, err = only(subresource, patch)
	}
	if err != nil {
		return nil, false, get.wrap(err)
	}
	if patch == nil {
		return before, false, nil
	}
	if err := h.readsBack(after); err != nil && subresource == "" {
		return nil, false, get.wrap(err)
	}
	if patch, err = threeway.Precondition(patch, string(uid), rv); err != nil {
		return nil, false, get.wrap(err)
	}
	req, err := h.one(ctx, "modify", http.MethodPatch, name)
	if err != nil {
		return nil, false, err
	}
	req.subresource, req.query, req.contentType, req.body = subresource, h.writeQuery(), typeMergePatch, patch
	into := h
	if subresource != "" { // the caller wants no object
		into = h.metadata()
		req.accept = into.codec.Accept(wire.OneObject)
	}
	o = into.newObject()
	if err := into.writes(ctx, req, Key{req.namespace, name}, o); err != nil {
		return nil, apierrors.IsConflict(err), err
	}
	return o, false, nil
}

// only returns the part of a merge patch that changes one member, or nil if there is none.
func only(member string, patch []byte) ([]byte, error) {
	var members map[string]json.RawMessage
	if patch == nil {
		return nil, nil
	}
	if err := json.Unmarshal(patch, &members); err != nil {
		return nil, fmt.Errorf("read the difference: %w", err)
	}
	value, changed := members[member]
	if !changed {
		return nil, nil
	}
	return json.Marshal(map[string]json.RawMessage{member: value})
}

// difference returns a merge patch of raw. before is the value decoded from raw. The
// patch turns raw into the object that after describes.
func (h *handle) difference(raw []byte, before, after object) ([]byte, error) {
	was, err := wire.EncodeJSON(before)
	if err != nil {
		return nil, err
	}
	is, err := wire.EncodeJSON(after)
	if err != nil {
		return nil, err
	}
	patch, err := threeway.Patch(raw, was, is, func(changed []byte) ([]byte, error) {
		o := h.newObject()
		if err := h.codec.Decode(wire.Raw{Bytes: changed}, o); err != nil {
			return nil, err
		}
		return wire.EncodeJSON(o)
	})
	if errors.Is(err, threeway.ErrAmbiguous) || errors.Is(err, threeway.ErrInexpressible) {
		return nil, fmt.Errorf("%w; use Patch, or Update with the whole type", err)
	}
	return patch, err
}
