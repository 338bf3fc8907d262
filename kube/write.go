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

// WriteOptions say how to write. The zero value writes for good, in the name of
// the client's field manager.
type WriteOptions struct {
	// DryRun has the server do everything but store the result.
	DryRun bool
	// FieldValidation is what the server does about fields that it does not
	// know: "Ignore", "Warn" or "Strict". Default: the server's, which is Warn.
	FieldValidation string
	// FieldManager is the name that owns the fields set. Default: the client's.
	FieldManager string
	// NoForce makes an apply fail with a conflict when another field manager
	// owns a field with another value. By default it is taken over.
	NoForce bool
	// TakeOver names the field managers of a predecessor that wrote by create and
	// update, as controller-runtime's Update does: "manager", as a rule. The fields
	// that they own of an object become the field manager's at the first apply, so
	// that an apply removes those that it does not set. Finalizers stay theirs.
	// client-go has csaupgrade for it.
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
	manager := h.write.FieldManager
	if manager == "" {
		manager = h.client.fieldManager
	}
	q.Set("fieldManager", manager)
	return q
}

// Create creates an object and returns it as the server has it. An empty
// namespace is the handle's. Without a name it needs a generateName, unless its
// kind is one that is not stored, such as SelfSubjectAccessReview.
func (r Resource[T]) Create(ctx context.Context, o *T) (*T, error) {
	req, err := r.forObject(ctx, "create", http.MethodPost, asObject(o))
	if err != nil {
		return nil, err
	}
	name := req.name
	req.path = req.resource.path(req.namespace, "", "") // the name is in the body
	if req.body, req.contentType, err = r.codec.Encode(shallow(asObject(o))); err != nil {
		return nil, req.wrap(err)
	}
	return writes[T](ctx, r.handle, req, Key{req.namespace, name})
}

// Update replaces an object by o, which is the object as it was read, changed,
// and returns it as the server has it. It is a conflict (apierrors.IsConflict)
// if somebody else has changed it meanwhile; see [View.Modify]. Without a
// resourceVersion nobody's change is looked at: kinds of k8s.io/api, for the
// most part, are overwritten then, and custom resources refuse. Status is ignored
// where it is a subresource.
func (r Resource[T]) Update(ctx context.Context, o *T) (*T, error) {
	return r.update(ctx, "", o)
}

// UpdateStatus is Update of the status alone.
func (r Resource[T]) UpdateStatus(ctx context.Context, o *T) (*T, error) {
	return r.update(ctx, "status", o)
}

func (r Resource[T]) update(ctx context.Context, subresource string, o *T) (*T, error) {
	req, err := r.forObject(ctx, "update", http.MethodPut, asObject(o))
	if err != nil {
		return nil, err
	}
	req.subresource = subresource
	if req.body, req.contentType, err = r.codec.Encode(shallow(asObject(o))); err != nil {
		return nil, req.wrap(err)
	}
	return writes[T](ctx, r.handle, req, Key{req.namespace, req.name})
}

// Patch changes an object by a patch of any type that the server takes and
// returns it as the server has it: types.JSONPatchType, types.MergePatchType,
// types.StrategicMergePatchType (not for custom resources),
// types.ApplyYAMLPatchType.
func (v View[T]) Patch(ctx context.Context, name string, kind types.PatchType, patch []byte) (*T, error) {
	req, err := v.one(ctx, "patch", http.MethodPatch, name)
	if err != nil {
		return nil, err
	}
	req.query, req.contentType, req.body = v.writeQuery(), string(kind), patch
	if kind == types.ApplyYAMLPatchType && !v.write.NoForce {
		req.query.Set("force", "true")
	}
	return writes[T](ctx, v.handle, req, Key{req.namespace, name})
}

// Apply makes the fields that o sets be as o says, creates the object if there
// is none, and returns it as the server has it (server-side apply, KEP-555).
// Fields that an earlier Apply set and this one does not are removed; what
// others have set stays.
//
// What counts as set: a field tagged omitempty or omitzero is, unless it is zero
// or an empty object; a pointer is, unless it is nil, whatever it points to;
// nil never is; any other field always is. Status, finalizers, and the metadata
// that the server sets are not sent. o must not be an object that was read: it
// names what is wanted, not what is. With a uid, it is a conflict if the object
// was deleted or made anew.
func (v View[T]) Apply(ctx context.Context, o *T) (*T, error) {
	if err := v.unread(asObject(o)); err != nil {
		return nil, err
	}
	req, err := v.applyRequest(ctx, asObject(o), intent.Spec)
	if err != nil {
		return nil, err
	}
	return v.sendApply(ctx, req, asObject(o).GetUID())
}

// unread returns an error for an object that was read, which names everything.
func (v View[T]) unread(o object) error {
	if reflect.ValueOf(o).IsNil() || o.GetResourceVersion() == "" && len(o.GetManagedFields()) == 0 {
		return nil
	}
	req := &request{verb: "apply", resource: v.kind, namespace: o.GetNamespace(), name: o.GetName()}
	return req.wrap(errors.New("the object was read from the server; build one that has only the fields you want, or use Modify"))
}

// ApplyStatus is [View.Apply] of the status alone. o may have been read; besides
// its status only name, namespace and uid count. With the uid of an object that
// was made anew it is a conflict, although the status of a custom kind may have
// been written: the server does not look at the uid there.
func (v View[T]) ApplyStatus(ctx context.Context, o *T) error {
	acc := asObject(o)
	req, err := v.applyRequest(ctx, acc, intent.Status)
	if err != nil {
		return err
	}
	// Of the answer, only the metadata is read.
	answer := handle{client: v.client, codec: v.codec.Metadata(), write: v.write}
	req.accept = answer.codec.Accept(wire.OneObject)
	applied, err := writes[metav1.PartialObjectMetadata](ctx, answer, req, Key{req.namespace, req.name})
	return madeAnew(req, acc.GetUID(), applied, err)
}

// applyRequest prepares an apply of part of an object.
func (v View[T]) applyRequest(ctx context.Context, o object, part intent.Part) (*request, error) {
	req, err := v.forObject(ctx, "apply", http.MethodPatch, o)
	if err != nil {
		return nil, err
	}
	encoder, err := v.client.encoder(v.goType)
	if err != nil {
		return nil, req.wrap(err)
	}
	if part == intent.Status {
		req.subresource = "status"
	}
	if o.GetNamespace() != req.namespace {
		// The handle's namespace goes into the body as into the URL.
		o = shallow(o)
		o.SetNamespace(req.namespace)
	}
	req.body, err = encoder.Object(nil, o, intent.Options{APIVersion: v.codec.APIVersion(), Kind: v.kind.Kind, Part: part})
	if err != nil {
		return nil, req.wrap(err)
	}
	req.contentType = typeApply
	if !v.write.NoForce {
		req.query.Set("force", "true")
	}
	return req, nil
}

func (v View[T]) sendApply(ctx context.Context, req *request, uid types.UID) (*T, error) {
	applied, err := writes[T](ctx, v.handle, req, Key{req.namespace, req.name})
	if err = madeAnew(req, uid, asObject(applied), err); err != nil || len(v.write.TakeOver) == 0 || v.write.DryRun {
		return applied, err
	}
	return v.takeOver(ctx, req, applied)
}

// madeAnew returns a conflict if an apply with a uid met another object of the
// same name. The server answers 409 if there is none, 422 for most kinds if it
// is another one, and does not look at the uid in the status of custom ones.
func madeAnew(req *request, uid types.UID, applied object, err error) error {
	switch {
	case uid == "":
		return err
	case err == nil && applied.GetUID() == uid:
		return nil
	case err != nil && !isInvalidUID(err):
		return err
	}
	return req.wrap(apierrors.NewConflict(req.resource.GroupResource(), req.name, fmt.Errorf("it was made anew: it has not the uid %s", uid)))
}

func isInvalidUID(err error) bool {
	cause, ok := apierrors.StatusCause(err, metav1.CauseTypeFieldValueInvalid)
	return ok && cause.Field == "metadata.uid"
}

// shallow returns a copy of an object whose own kind and metadata can be set
// while the caller's stays as it is.
func shallow(o object) object {
	if u, ok := o.(runtime.Unstructured); ok {
		return u.DeepCopyObject().(object)
	}
	copied := reflect.New(reflect.TypeOf(o).Elem())
	copied.Elem().Set(reflect.ValueOf(o).Elem())
	return copied.Interface().(object)
}

// encoder returns the encoder of what an apply sends, built once for a type.
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

// forObject prepares a write of an object, in the namespace that it or the handle names.
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
		return nil, req.wrap(fmt.Errorf("%w: %s is namespaced: set the object's namespace or the handle's with In", ErrScope, req.resource.Kind))
	case len(h.namespaces) > 0 && !slices.Contains(h.namespaces, namespace):
		return nil, req.wrap(fmt.Errorf("%w: the object is in namespace %q, the handle in %q", ErrScope, namespace, h.namespaces))
	}
	return req, nil
}

// writes sends a write and remembers it, so that stores are not read older.
func writes[T any](ctx context.Context, h handle, req *request, key Key) (*T, error) {
	if h.write.DryRun {
		return exchange[T](ctx, h, req)
	}
	var o *T
	err := h.client.stores.executing(req.resource, key, func() (err error) {
		o, err = exchange[T](ctx, h, req)
		return err
	})
	if err != nil {
		h.client.stores.lost(req.resource, key, err)
		return nil, err
	}
	if !req.ensures {
		h.client.stores.applied(req.resource, asObject(o))
	}
	h.client.stores.wrote(req.resource, asObject(o))
	confirmed(ctx, asObject(o))
	return o, nil
}

// Delete deletes an object. Propagation and grace period are the kind's default. The
// object may still be there when Delete returns, until its finalizers are done: see
// [Reader.UntilGone].
func (v View[T]) Delete(ctx context.Context, name string) error {
	return v.DeleteWith(ctx, name, metav1.DeleteOptions{})
}

// DeleteWith is [View.Delete] with options, such as a precondition on the uid.
func (v View[T]) DeleteWith(ctx context.Context, name string, options metav1.DeleteOptions) error {
	req, err := v.one(ctx, "delete", http.MethodDelete, name)
	if err != nil {
		return err
	}
	dry, err := v.deleteBody(req, options)
	if err != nil {
		return err
	}
	key := Key{req.namespace, name}
	if dry {
		_, _, err := v.client.roundTrip(ctx, req)
		return err
	}
	var body []byte
	var contentType string
	err = v.client.stores.executing(req.resource, key, func() (err error) {
		body, contentType, err = v.client.roundTrip(ctx, req)
		return err
	})
	if err != nil {
		v.client.stores.lost(req.resource, key, err)
		return err
	}
	// The answer is the object, which finalizers or a grace period still hold,
	// or a Status with the uid of what is gone.
	if status, ok := wire.DecodeStatus(body); ok {
		if status.Status == metav1.StatusFailure {
			v.client.stores.lost(req.resource, key, errLost)
			return req.wrap(&apierrors.StatusError{ErrStatus: *status})
		}
		var uid types.UID
		if status.Details != nil {
			uid = status.Details.UID
		}
		v.client.stores.deleted(req.resource, key, uid)
		confirmedDeletion(ctx, key, uid)
		return nil
	}
	o := new(T)
	raw, err := wire.Unwrap(contentType, body)
	if err == nil {
		err = v.codec.Decode(raw, asObject(o))
	}
	if err != nil {
		v.client.stores.lost(req.resource, key, errLost)
		return nil //nolint:nilerr // the deletion itself went well
	}
	if acc := asObject(o); acc.GetDeletionTimestamp() == nil {
		// Services and some other kinds are answered as they last were.
		v.client.stores.deleted(req.resource, key, acc.GetUID())
		confirmedDeletion(ctx, key, acc.GetUID())
	} else {
		v.client.stores.wrote(req.resource, acc)
		confirmed(ctx, acc)
	}
	return nil
}

// DeleteAll deletes all objects of the handle: narrow it with In, Labeled and
// Fielded. Of a namespaced kind it must be narrowed to namespaces. The server gives
// a request a minute or so: of many thousand objects some may be left then. That
// is an error, and DeleteAll has to be called again.
func (v View[T]) DeleteAll(ctx context.Context) error {
	return v.DeleteAllWith(ctx, metav1.DeleteOptions{})
}

// DeleteAllWith is [View.DeleteAll] with options, which hold for each object.
func (v View[T]) DeleteAllWith(ctx context.Context, options metav1.DeleteOptions) error {
	for ns := range v.eachNamespace() {
		req, err := v.request(ctx, "deletecollection", http.MethodDelete, ns)
		if err != nil {
			return err
		}
		if ns == "" && req.resource.Scope == Namespaced {
			return req.wrap(fmt.Errorf("%w: the API deletes collections of %s by namespace: say which with In", ErrScope, req.resource.Kind))
		}
		dry, err := v.deleteBody(req, options)
		if err != nil {
			return err
		}
		v.selector.set(req.query)
		req.accept = v.codec.Metadata().Accept(wire.AList)
		body, contentType, err := v.client.roundTrip(ctx, req)
		if err != nil {
			return err
		}
		if !dry {
			v.deletedAll(ctx, req.resource, body, contentType)
		}
	}
	return nil
}

// deletedAll tells the stores, and the recorder, of the objects that a DeleteAll
// was answered with, as they were before it: some may be held by finalizers or by
// their grace period.
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
	// Some servers answer with a Status, which names nothing: then the stores
	// learn of it by their watches.
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

// confirmed tells of a write that was answered with o.
func confirmed(ctx context.Context, o metav1.Object) {
	written.Tell(ctx, written.Write{
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(),
		Deleted: o.GetDeletionTimestamp() != nil,
	})
}

// confirmedDeletion tells of an object that is gone.
func confirmedDeletion(ctx context.Context, key Key, uid types.UID) {
	written.Tell(ctx, written.Write{Namespace: key.Namespace, Name: key.Name, UID: uid, Deleted: true})
}
