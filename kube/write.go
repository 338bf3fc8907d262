package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/internal/written"
	"github.com/pintle-go/pintle/kube/internal/intent"
	"github.com/pintle-go/pintle/kube/internal/wire"
)

// WriteOptions tells how to write. The zero value stores the writes, under the client's
// field manager. Its counterparts are CreateOptions, PatchOptions and ApplyOptions of
// controller-runtime's package client, and PostParams and PatchParams of kube-rs.
type WriteOptions struct {
	// DryRun makes the server do everything but store the result, as client.DryRunAll of
	// controller-runtime does.
	DryRun bool
	// FieldValidation is how the server treats fields that it does not know: "Ignore",
	// "Warn" or "Strict". Default: the server's, which is Warn.
	FieldValidation string
	// FieldManager is the name that owns the fields set, as client.FieldOwner of
	// controller-runtime is. Default: the client's.
	FieldManager string
	// NoForce makes an apply fail with a conflict if another field manager owns a field
	// with another value. By default the apply takes the field over, as
	// client.ForceOwnership of controller-runtime does.
	NoForce bool
	// TakeOver names the field managers of a predecessor that wrote by create and update,
	// as controller-runtime's Update does. Such a field manager is named "manager", as a
	// rule. At the first apply, the field manager of the apply becomes the owner of the
	// fields that they own of the object. So an apply removes the fields that it does not
	// set. Finalizers stay with the former field managers. The counterpart is csaupgrade
	// of client-go.
	TakeOver []string
}

func (h handle) writeQuery() url.Values {
	q := make(url.Values)
	if h.write.DryRun {
		q.Set("dryRun", metav1.DryRunAll)
	}
	if h.write.FieldValidation != "" {
		q.Set("fieldValidation", h.write.FieldValidation)
	}
	q.Set("fieldManager", h.managerName())
	return q
}

// Create creates an object and returns it as the server has it. An empty namespace means
// the handle's. An object without a name needs a generateName, unless its kind is not
// stored, such as SelfSubjectAccessReview. The counterpart is Create of
// controller-runtime's client.Writer.
func (r Resource[T]) Create(ctx context.Context, o *T) (*T, error) {
	is := new(T)
	return result(is, r.handle.create(ctx, asObject(o), asObject(is)))
}

func (h handle) create(ctx context.Context, o, answer object) error {
	req, err := h.forObject(ctx, "create", http.MethodPost, o)
	if err != nil {
		return err
	}
	name := req.name
	req.path = req.resource.path(req.namespace, "", "") // the name is in the body
	if req.body, req.contentType, err = h.codec.Encode(shallow(o)); err != nil {
		return req.wrap(err)
	}
	return h.writes(ctx, req, Key{req.namespace, name}, answer)
}

// Update replaces an object by o and returns it as the server has it. o is the object as
// it was read, with changes. Update returns a conflict (apierrors.IsConflict) if somebody
// else has changed the object meanwhile; see [View.Modify]. If o has no resourceVersion,
// the server ignores the changes of others: it overwrites most kinds of k8s.io/api, and
// refuses custom resources. Changes of status are ignored if the kind has a status
// subresource. The counterparts are Update of controller-runtime's client.Writer and
// Api::replace of kube-rs.
func (r Resource[T]) Update(ctx context.Context, o *T) (*T, error) {
	is := new(T)
	return result(is, r.handle.update(ctx, "", asObject(o), asObject(is)))
}

// UpdateStatus is Update of the status alone. Its counterpart is Status().Update of
// controller-runtime's client.
func (r Resource[T]) UpdateStatus(ctx context.Context, o *T) (*T, error) {
	is := new(T)
	return result(is, r.handle.update(ctx, "status", asObject(o), asObject(is)))
}

func (h handle) update(ctx context.Context, subresource string, o, answer object) error {
	req, err := h.forObject(ctx, "update", http.MethodPut, o)
	if err != nil {
		return err
	}
	req.subresource = subresource
	if req.body, req.contentType, err = h.codec.Encode(shallow(o)); err != nil {
		return req.wrap(err)
	}
	return h.writes(ctx, req, Key{req.namespace, req.name}, answer)
}

// Patch changes an object by a patch of any type that the server takes and returns it as
// the server has it: types.JSONPatchType, types.MergePatchType,
// types.StrategicMergePatchType (not for custom resources), types.ApplyYAMLPatchType. The
// counterpart is Patch of controller-runtime's client.Writer.
func (v View[T]) Patch(ctx context.Context, name string, kind types.PatchType, patch []byte) (*T, error) {
	is := new(T)
	return result(is, v.handle.patch(ctx, name, kind, patch, asObject(is)))
}

func (h handle) patch(ctx context.Context, name string, kind types.PatchType, patch []byte, answer object) error {
	req, err := h.one(ctx, "patch", http.MethodPatch, name)
	if err != nil {
		return err
	}
	req.query, req.contentType, req.body = h.writeQuery(), string(kind), patch
	if kind == types.ApplyYAMLPatchType && !h.write.NoForce {
		req.query.Set("force", "true")
	}
	return h.writes(ctx, req, Key{req.namespace, name}, answer)
}

// Apply sets the fields of an object that o sets, creates the object if there is none,
// and returns it as the server has it (server-side apply, KEP-555). Fields that an
// earlier Apply set and this Apply does not set are removed. Fields that others have set
// stay. The counterparts are Apply of controller-runtime's client.Writer and Patch::Apply
// of kube-rs.
//
// These fields count as set: a field tagged omitempty or omitzero, unless it is zero or
// an empty object; a pointer to any value, unless the pointer is nil; any other field. A
// nil never counts as set. Status, finalizers, and the metadata that the server sets are
// not sent. o must not be an object that was read: o names the wanted fields, not the
// present ones. If o has a uid, Apply returns a conflict if the object was deleted or
// recreated.
func (v View[T]) Apply(ctx context.Context, o *T) (*T, error) {
	is := new(T)
	return result(is, v.handle.apply(ctx, asObject(o), asObject(is)))
}

func (h handle) apply(ctx context.Context, o, answer object) error {
	if err := h.unread(o); err != nil {
		return err
	}
	req, err := h.applyRequest(ctx, o, intent.Spec, nil)
	if err != nil {
		return err
	}
	return h.sendApply(ctx, req, o.GetUID(), answer)
}

// unread returns an error for an object that was read, because it sets all fields.
func (h handle) unread(o object) error {
	if reflect.ValueOf(o).IsNil() || o.GetResourceVersion() == "" && len(o.GetManagedFields()) == 0 {
		return nil
	}
	req := &request{verb: "apply", resource: h.kind, namespace: o.GetNamespace(), name: o.GetName()}
	return req.wrap(errors.New("the object was read from the server: build one that has only the fields to set, " +
		"or use Modify"))
}

// ApplyStatus is [View.Apply] of the status alone. o may have been read: besides its
// status, only name, namespace and uid count. If o has the uid of an object that was
// recreated since, ApplyStatus returns a conflict. The status of a custom kind may have
// been written all the same: the server does not look at the uid there. The counterpart
// is Api::patch_status of kube-rs with Patch::Apply.
func (v View[T]) ApplyStatus(ctx context.Context, o *T) error {
	return v.handle.applyStatus(ctx, asObject(o))
}

func (h handle) applyStatus(ctx context.Context, o object) error {
	req, err := h.applyRequest(ctx, o, intent.Status, nil)
	if err != nil {
		return err
	}
	// Only the metadata of the answer is read.
	metadata := h.metadata()
	req.accept = metadata.codec.Accept(wire.OneObject)
	applied := metadata.newObject()
	err = metadata.writes(ctx, req, Key{req.namespace, req.name}, applied)
	return conflictIfRecreated(req, o.GetUID(), applied, err)
}

// applyRequest prepares an apply of part of an object. Encoded is the encoded part, which is
// copied; nil: the part was not encoded yet.
func (h handle) applyRequest(ctx context.Context, o object, part intent.Part, encoded []byte) (*request, error) {
	req, err := h.forObject(ctx, "apply", http.MethodPatch, o)
	if err != nil {
		return nil, err
	}
	encoder, err := h.client.encoder(h.goType)
	if err != nil {
		return nil, req.wrap(err)
	}
	if part == intent.Status {
		req.subresource = "status"
	}
	if o.GetNamespace() != req.namespace {
		// The handle's namespace goes into the body as well as into the URL.
		o, encoded = shallow(o), nil
		o.SetNamespace(req.namespace)
	}
	if req.body = bytes.Clone(encoded); encoded == nil {
		req.body, err = encoder.Object(nil, o, h.intent(part))
	}
	if err != nil {
		return nil, req.wrap(err)
	}
	req.contentType = typeApply
	if !h.write.NoForce {
		req.query.Set("force", "true")
	}
	return req, nil
}

// intent returns the options with which a part of an object is encoded.
func (h handle) intent(p intent.Part) intent.Options {
	return intent.Options{APIVersion: h.codec.APIVersion(), Kind: h.kind.Kind, Part: p}
}

func (h handle) sendApply(ctx context.Context, req *request, uid types.UID, answer object) error {
	err := h.writes(ctx, req, Key{req.namespace, req.name}, answer)
	err = conflictIfRecreated(req, uid, answer, err)
	if err != nil || len(h.write.TakeOver) == 0 || h.write.DryRun {
		return err
	}
	return h.takeOver(ctx, req, answer)
}

// conflictIfRecreated returns a conflict if an apply with a uid met another object of the
// same name.
// If there is no object, the server answers 409. If there is another object, the server
// answers 422 for most kinds, and does not look at the uid in the status of custom kinds.
func conflictIfRecreated(req *request, uid types.UID, applied object, err error) error {
	switch {
	case uid == "":
		return err
	case err == nil && applied.GetUID() == uid:
		return nil
	case err != nil && !isInvalidUID(err):
		return err
	}
	return req.wrap(apierrors.NewConflict(req.resource.GroupResource(), req.name,
		fmt.Errorf("the object was recreated: its uid is not %s", uid)))
}

func isInvalidUID(err error) bool {
	cause, ok := apierrors.StatusCause(err, metav1.CauseTypeFieldValueInvalid)
	return ok && cause.Field == "metadata.uid"
}

// shallow returns a copy of an object. The copy's own kind and metadata can be set, and
// the caller's object stays as it is.
func shallow(o object) object {
	if u, ok := o.(runtime.Unstructured); ok {
		return u.DeepCopyObject().(object)
	}
	copied := reflect.New(reflect.TypeOf(o).Elem())
	copied.Elem().Set(reflect.ValueOf(o).Elem())
	return copied.Interface().(object)
}

// encoder returns the encoder for apply requests. It is built once for a type.
func (c *Client) encoder(t reflect.Type) (*intent.Encoder, error) {
	if e, ok := c.encoders.Load(t); ok {
		return e.(*intent.Encoder), nil
	}
	e, err := intent.For(t)
	if err != nil {
		return nil, err
	}
	c.encoders.Store(t, e)
	return e, nil
}

var errNoObject = errors.New("the object is nil")

// forObject prepares a write of an object. The namespace is the object's or the handle's.
func (h handle) forObject(ctx context.Context, verb, method string, o object) (*request, error) {
	if reflect.ValueOf(o).IsNil() {
		return nil, &Error{Verb: verb, Kind: h.kindName(), Err: errNoObject}
	}
	namespace := o.GetNamespace()
	if namespace == "" && len(h.namespaces) == 1 {
		namespace = h.namespaces[0]
	}
	req, err := h.requestFor(ctx, verb, method, Key{namespace, o.GetName()})
	if err != nil {
		return nil, err
	}
	req.query = h.writeQuery()
	switch {
	case req.name == "" && method != http.MethodPost:
		return nil, req.wrap(errors.New("the object has no name"))
	case !validName(req.name):
		return nil, req.wrap(fmt.Errorf("%q cannot be a name", req.name))
	case namespace == "" && req.resource.Scope == Namespaced:
		return nil, req.wrap(fmt.Errorf("%w: %s is namespaced: set the object's namespace or the handle's with In",
			ErrScope, req.resource.Kind))
	case len(h.namespaces) > 0 && !slices.Contains(h.namespaces, namespace):
		return nil, req.wrap(fmt.Errorf("%w: the object is in namespace %q, the handle in %q",
			ErrScope, namespace, h.namespaces))
	}
	return req, nil
}

// writes sends a write and remembers it, so that later reads of stores are not stale.
func (h handle) writes(ctx context.Context, req *request, key Key, answer object) error {
	if h.write.DryRun {
		return h.exchange(ctx, req, answer)
	}
	err := h.client.stores.executing(req.resource, key, func() error { return h.exchange(ctx, req, answer) })
	if err != nil {
		h.client.stores.lost(req.resource, key, err)
		return err
	}
	if !req.ensures {
		h.client.stores.applied(req.resource, answer)
	}
	h.client.stores.wrote(req.resource, answer)
	confirmed(ctx, answer)
	return nil
}

// Delete deletes an object. Propagation and grace period are the kind's default. The
// object may still exist when Delete returns, until its finalizers are done: see
// [Reader.UntilGone]. The counterpart is Delete of controller-runtime's client.Writer.
func (v View[T]) Delete(ctx context.Context, name string) error {
	return v.DeleteWith(ctx, name, metav1.DeleteOptions{})
}

// DeleteWith is [View.Delete] with options, such as a precondition on the uid. Its
// counterparts are client.DeleteOptions of controller-runtime and DeleteParams of
// kube-rs.
func (v View[T]) DeleteWith(ctx context.Context, name string, options metav1.DeleteOptions) error {
	return v.handle.delete(ctx, name, options)
}

func (h handle) delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
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
			return req.wrap(&apierrors.StatusError{ErrStatus: *status})
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
	raw, err := wire.Unwrap(contentType, body)
	if err == nil {
		err = h.codec.Decode(raw, o)
	}
	if err != nil {
		h.client.stores.lost(req.resource, key, errLost)
		return nil //nolint:nilerr // the deletion itself went well
	}
	if o.GetDeletionTimestamp() == nil {
		// The server answers with the last state of Services and of some other kinds.
		h.client.stores.deleted(req.resource, key, o.GetUID())
		confirmedDeletion(ctx, key, o.GetUID())
	} else {
		h.client.stores.wrote(req.resource, o)
		confirmed(ctx, o)
	}
	return nil
}

// DeleteAll deletes all objects of the handle: narrow the handle with In, Labeled and
// Fielded. If the kind is namespaced, the handle must be narrowed to namespaces. The
// server gives a request a minute or so, so some of many thousand objects may be left
// then. That is an error, and DeleteAll has to be called again. The counterpart is
// DeleteAllOf of controller-runtime's client.Writer.
func (v View[T]) DeleteAll(ctx context.Context) error {
	return v.DeleteAllWith(ctx, metav1.DeleteOptions{})
}

// DeleteAllWith is [View.DeleteAll] with options, which hold for each object. Its
// counterparts are client.DeleteAllOfOptions of controller-runtime and
// Api::delete_collection of kube-rs.
func (v View[T]) DeleteAllWith(ctx context.Context, options metav1.DeleteOptions) error {
	return v.handle.deleteAll(ctx, options)
}

func (h handle) deleteAll(ctx context.Context, options metav1.DeleteOptions) error {
	for ns := range h.eachNamespace() {
		req, err := h.request(ctx, "deletecollection", http.MethodDelete, ns)
		if err != nil {
			return err
		}
		if ns == "" && req.resource.Scope == Namespaced {
			return req.wrap(fmt.Errorf("%w: the API deletes collections of %s by namespace: set the namespace with In",
				ErrScope, req.resource.Kind))
		}
		dry, err := h.deleteBody(req, options)
		if err != nil {
			return err
		}
		h.selector.set(req.query)
		req.accept = h.codec.Metadata().Accept(wire.AList)
		body, contentType, err := h.client.roundTrip(ctx, req)
		if err != nil {
			return err
		}
		if !dry {
			h.deletedAll(ctx, req.resource, body, contentType)
		}
	}
	return nil
}

// deletedAll tells the stores and the recorder of the objects in the answer to a
// DeleteAll. The answer shows them as they were before the deletion: finalizers or a
// grace period may still hold some of them.
func (h handle) deletedAll(ctx context.Context, kind Kind, body []byte, contentType string) {
	metadata := h.codec.Metadata()
	each := func(item wire.Raw) error {
		var o metav1.PartialObjectMetadata
		err := metadata.Decode(item, &o)
		if err == nil {
			h.client.stores.deleting(kind, KeyOf(&o), o.UID)
			confirmedDeletion(ctx, KeyOf(&o), o.UID)
		}
		return err
	}
	// Some servers answer with a Status, which names no objects: then the stores learn of
	// the deletion by their watches.
	_, _ = wire.ListReader{MaxBytes: h.client.maxObject, Each: each}.Read(contentType, bytes.NewReader(body))
}

// deleteBody adds the options of a deletion and reports whether it is a dry run.
func (h handle) deleteBody(req *request, o metav1.DeleteOptions) (dry bool, err error) {
	req.query = make(url.Values)
	o.Kind, o.APIVersion = "DeleteOptions", "meta.k8s.io/v1"
	if h.write.DryRun {
		o.DryRun = []string{metav1.DryRunAll}
	}
	if req.body, err = encodeJSON(&o); err != nil {
		return false, req.wrap(err)
	}
	req.contentType = wire.TypeJSON
	return len(o.DryRun) > 0, nil
}

// confirmed tells the recorder of a write that the server answered with o.
func confirmed(ctx context.Context, o metav1.Object) {
	written.Tell(ctx, written.Write{
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(),
		Deleted: o.GetDeletionTimestamp() != nil,
	})
}

// confirmedDeletion tells the recorder of an object that is gone.
func confirmedDeletion(ctx context.Context, key Key, uid types.UID) {
	written.Tell(ctx, written.Write{Namespace: key.Namespace, Name: key.Name, UID: uid, Deleted: true})
}
