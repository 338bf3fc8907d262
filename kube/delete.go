package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube/internal/wire"
)

// Delete deletes an object, with at most one set of options, such as a precondition on the
// uid. Propagation and grace period are the kind's default unless the options name them. The
// object may still exist when Delete returns, until its finalizers are done: see
// [Reader.UntilGone]. The counterparts are Delete of controller-runtime's client.Writer with
// client.DeleteOptions, and Api::delete of kube-rs with DeleteParams.
func (v View[T]) Delete(ctx context.Context, name string, options ...metav1.DeleteOptions) error {
	return v.base().delete(ctx, name, options)
}

func (h *handle) delete(ctx context.Context, name string, options []metav1.DeleteOptions) error {
	req, err := h.one(ctx, "delete", http.MethodDelete, name)
	if err != nil {
		return err
	}
	dry, err := h.deleteBody(req, options)
	if err != nil {
		return err
	}
	key := Key{req.namespace, name}
	if dry {
		_, _, err := h.client.roundTrip(ctx, req)
		return err
	}
	var body []byte
	var contentType string
	err = h.client.stores.executing(req.resource, key, func() (err error) {
		body, contentType, err = h.client.roundTrip(ctx, req)
		return err
	})
	if err != nil {
		h.client.stores.lost(req.resource, key, err)
		return err
	}
	// The answer is the object, which finalizers or a grace period still hold, or a
	// Status with the uid of the deleted object.
	if status, ok := wire.DecodeStatus(body); ok {
		if status.Status == metav1.StatusFailure {
			h.client.stores.lost(req.resource, key, errLost)
			return req.wrap(wire.StatusError(status))
		}
		var uid types.UID
		if status.Details != nil {
			uid = status.Details.UID
		}
		h.client.stores.deleted(req.resource, key, uid)
		confirmedDeletion(ctx, key, uid)
		return nil
	}
	o := h.newObject()
	if err := h.decodeAnswer(req, contentType, body, o); err != nil {
		h.client.stores.lost(req.resource, key, errLost)
		if errors.Is(err, wire.ErrAnswer) {
			return req.wrap(err)
		}
		return nil // the deletion itself went well
	}
	if o.GetDeletionTimestamp() == nil {
		// The server answers with the last state of Services and of some other kinds.
		h.client.stores.deleted(req.resource, key, o.GetUID())
		confirmedDeletion(ctx, key, o.GetUID())
	} else {
		raw, _ := wire.Unwrap(contentType, body) // it was decoded
		h.client.stores.wrote(h, req.resource, o, raw)
		confirmed(ctx, o)
	}
	return nil
}

// DeleteAll deletes all objects of the handle: narrow the handle with In, Labeled and
// Fielded. If the kind is namespaced, the handle must be narrowed to namespaces. The options,
// at most one set, hold for each object. The server gives a request a minute or so, so some
// of many thousand objects may be left then. That is an error, and DeleteAll has to be called
// again. The counterparts are DeleteAllOf of controller-runtime's client.Writer and
// Api::delete_collection of kube-rs.
func (v View[T]) DeleteAll(ctx context.Context, options ...metav1.DeleteOptions) error {
	return v.base().deleteAll(ctx, options)
}

func (h *handle) deleteAll(ctx context.Context, options []metav1.DeleteOptions) error {
	for ns := range h.eachNamespace() {
		req, err := h.requestThat(ctx, "deletecollection", http.MethodDelete, Key{Namespace: ns}, func(kind Kind) error {
			if ns == "" && kind.Scope == Namespaced {
				return fmt.Errorf("%w: the API deletes collections of %s by namespace: set the namespace with In",
					ErrScope, kind.Kind)
			}
			return nil
		})
		if err != nil {
			return err
		}
		dry, err := h.deleteBody(req, options)
		if err != nil {
			return err
		}
		h.selector.set(req.query)
		req.accept = h.codec.Metadata().Accept(wire.AList)
		unsure := func() {
			if !dry {
				h.client.stores.unsureOfAll(req.resource, ns)
			}
		}
		var body []byte
		var contentType string
		err = returning(func() (err error) {
			body, contentType, err = h.deletesAll(ctx, req)
			return err
		}, unsure)
		if err != nil {
			if !notSent(err) { // a server that refuses one object may have deleted others
				unsure()
			}
			return err
		}
		if !dry && !h.deletedAll(ctx, req.resource, ns, body, contentType) {
			unsure()
		}
	}
	return nil
}

// deletesAll sends a DeleteAll and returns the answer.
func (h *handle) deletesAll(ctx context.Context, req *request) (body []byte, contentType string, err error) {
	body, contentType, err = h.client.roundTrip(ctx, req)
	if err != nil {
		return nil, "", err
	}
	if err := wire.CheckType(contentType); err != nil {
		return nil, "", req.wrap(err)
	}
	if status, ok := wire.DecodeStatus(body); ok && status.Status == metav1.StatusFailure {
		return nil, "", req.wrap(wire.StatusError(status))
	}
	return body, contentType, nil
}

// deletedAll tells the stores and the recorder of the objects in the answer to a
// DeleteAll. The answer shows them as they were before the deletion: finalizers or a
// grace period may still hold some of them. It returns false if the answer does not name them all:
// some servers answer with a Status.
func (h *handle) deletedAll(ctx context.Context, kind Kind, namespace string, body []byte, contentType string) bool {
	metadata := h.codec.Metadata()
	var deleted []keyed
	each := func(item wire.Raw) error {
		var o metav1.PartialObjectMetadata
		err := metadata.Decode(item, &o)
		if err == nil {
			deleted = append(deleted, keyed{KeyOf(&o), wire.MetadataEntry(&o)})
			confirmedDeletion(ctx, KeyOf(&o), o.UID)
		}
		return err
	}
	meta, err := wire.ListReader{MaxBytes: h.client.maxObject, Each: each}.Read(contentType, bytes.NewReader(body))
	h.client.stores.deleting(kind, namespace, meta.ResourceVersion, deleted)
	return err == nil
}

// deleteBody adds the options of a deletion and reports whether it is a dry run.
func (h *handle) deleteBody(req *request, options []metav1.DeleteOptions) (dry bool, err error) {
	var o metav1.DeleteOptions
	switch len(options) {
	case 0:
	case 1:
		o = options[0]
	default:
		return false, req.wrap(fmt.Errorf("%d sets of options were given, and a deletion has one", len(options)))
	}
	req.query = make(url.Values)
	o.Kind, o.APIVersion = "DeleteOptions", "meta.k8s.io/v1"
	if h.write.DryRun {
		o.DryRun = []string{metav1.DryRunAll}
	}
	if req.body, err = wire.EncodeJSON(&o); err != nil {
		return false, req.wrap(err)
	}
	req.contentType = wire.TypeJSON
	return len(o.DryRun) > 0, nil
}
