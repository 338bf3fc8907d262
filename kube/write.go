package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
	// TakeOver names the field managers of a predecessor, which wrote by any verb. Each
	// Apply and each Ensure that is sent makes its own field manager the owner of the
	// fields that they own of the same part of the object: of all but the status, or of
	// the status. So it removes the fields that it does not set. Finalizers stay with the
	// former field managers. With TakeOver, the first Ensure of a status in a process is
	// an Apply too. The counterpart is csaupgrade of client-go.
	//
	// The server takes managed fields only in a patch of the object itself. So a status
	// needs the right to patch the object too, and the webhooks for updates of the object
	// see that patch. If the server refuses it, the apply has been done and the fields
	// stay with their owners: the method returns the error, and the next call tries again.
	//
	// Programs made by kubebuilder write as "manager", the name of their binary. The
	// server has one entry for all of them, so "manager" takes the fields of each such
	// program that writes the same objects. Leave TakeOver out if another one still runs.
	TakeOver []string
}

func (h *handle) writeQuery() url.Values {
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
	return result(is, r.base().create(ctx, asObject(o), asObject(is)))
}

func (h *handle) create(ctx context.Context, o, answer object) error {
	req, err := h.forObject(ctx, "create", http.MethodPost, o)
	if err != nil {
		return err
	}
	if err := h.readsBack(o); err != nil {
		return req.wrap(err)
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
	return result(is, r.base().update(ctx, asObject(o), asObject(is)))
}

func (h *handle) update(ctx context.Context, o, answer object) error {
	req, err := h.forObject(ctx, "update", http.MethodPut, o)
	if err != nil {
		return err
	}
	if err := h.readsBack(o); err != nil {
		return req.wrap(err)
	}
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
	return result(is, v.base().patch(ctx, "", name, kind, patch, asObject(is)))
}

func (h *handle) patch(
	ctx context.Context, subresource, name string, kind types.PatchType, patch []byte, answer object,
) error {
	req, err := h.one(ctx, "patch", http.MethodPatch, name)
	if err != nil {
		return err
	}
	req.subresource = subresource
	req.query, req.contentType, req.body = h.writeQuery(), string(kind), patch
	if kind == types.ApplyYAMLPatchType && !h.write.NoForce {
		req.query.Set("force", "true")
	}
	if kind == types.ApplyYAMLPatchType {
		return h.sendApply(ctx, req, "", ensured{}, answer)
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
	return result(is, v.base().apply(ctx, asObject(o), asObject(is)))
}

func (h *handle) apply(ctx context.Context, o, answer object) error {
	if err := h.unread(o); err != nil {
		return err
	}
	req, err := h.applyRequest(ctx, o, intent.Spec, nil)
	if err != nil {
		return err
	}
	return h.sendApply(ctx, req, o.GetUID(), ensured{}, answer)
}

// unread returns an error for an object that was read, because it sets all fields.
func (h *handle) unread(o object) error {
	if reflect.ValueOf(o).IsNil() || o.GetResourceVersion() == "" && len(o.GetManagedFields()) == 0 {
		return nil
	}
	req := &request{verb: "apply", resource: h.kind, namespace: o.GetNamespace(), name: o.GetName()}
	return req.wrap(errors.New("the object was read from the server: build one that has only the fields to set, " +
		"or use Modify"))
}

// applyRequest prepares an apply of part of an object. Encoded is the encoded part, which is
// copied; nil: the part was not encoded yet.
func (h *handle) applyRequest(ctx context.Context, o object, part intent.Part, encoded []byte) (*request, error) {
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
	} else if err := h.readsBack(o); err != nil {
		return nil, req.wrap(err)
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
func (h *handle) intent(p intent.Part) intent.Options {
	return intent.Options{
		APIVersion: h.codec.APIVersion(), Kind: h.kind.Kind, Part: p, Custom: !h.codec.Builtin(),
	}
}

// sendApply sends an apply. Before is the last apply of this process to the same part of
// the object, if it is known.
func (h *handle) sendApply(ctx context.Context, req *request, uid types.UID, before ensured, answer object) error {
	err := h.applies(ctx, req, answer)
	err = conflictIfRecreated(req, uid, answer, err)
	if err != nil || h.write.DryRun {
		return err
	}
	return h.takeOver(ctx, req, before, answer)
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
	return req.wrap(apierrors.NewConflict(req.resource.groupResource(), req.name,
		fmt.Errorf("the object was recreated: its uid is not %s", uid)))
}

func isInvalidUID(err error) bool {
	cause, ok := apierrors.StatusCause(err, metav1.CauseTypeFieldValueInvalid)
	return ok && cause.Field == "metadata.uid"
}

// shallow returns a copy of an object. The copy's own kind and metadata can be set, and
// the caller's object stays as it is.
func shallow(o object) object {
	if u, ok := o.(*unstructured.Unstructured); ok {
		content := maps.Clone(u.Object)
		if metadata, ok := content["metadata"].(map[string]any); ok {
			content["metadata"] = maps.Clone(metadata)
		}
		return &unstructured.Unstructured{Object: content}
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
func (h *handle) forObject(ctx context.Context, verb, method string, o object) (*request, error) {
	if reflect.ValueOf(o).IsNil() {
		return nil, &Error{Verb: verb, Kind: h.kindName(), Err: errNoObject}
	}
	namespace := o.GetNamespace()
	if namespace == "" && len(h.namespaces) == 1 {
		namespace = h.namespaces[0]
	}
	req, err := h.requestThat(ctx, verb, method, Key{namespace, o.GetName()}, func(kind Kind) error {
		if namespace == "" && kind.Scope == Namespaced {
			return fmt.Errorf("%w: %s is namespaced: set the object's namespace or the handle's with In", ErrScope, kind.Kind)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	req.query = h.writeQuery()
	switch {
	case req.name == "" && method != http.MethodPost:
		return nil, req.wrap(errors.New("the object has no name"))
	case !validName(req.name):
		return nil, req.wrap(fmt.Errorf("%q cannot be a name", req.name))
	case len(h.namespaces) > 0 && !slices.Contains(h.namespaces, namespace):
		return nil, req.wrap(fmt.Errorf("%w: the object is in namespace %q, the handle in %q",
			ErrScope, namespace, h.namespaces))
	}
	return req, nil
}

// readsBack returns an error for an object whose labels the handle's selector does not match.
func (h *handle) readsBack(o object) error {
	if h.selector.fits(o) {
		return nil
	}
	return fmt.Errorf("%w: the labels of the object do not match %q, so the handle would not read it back: "+
		"set the labels that Labeled names", ErrScope, h.selector.label)
}

// writes sends a write and remembers it, so that later reads of stores are not stale.
func (h *handle) writes(ctx context.Context, req *request, key Key, answer object) error {
	if h.write.DryRun {
		_, err := h.exchange(ctx, req, answer)
		return err
	}
	shown := h.client.stores.shown(req.resource, key)
	var raw wire.Raw
	err := h.client.stores.executing(req.resource, key, func() (err error) {
		raw, err = h.exchange(ctx, req, answer)
		return err
	})
	if err != nil {
		h.client.stores.lost(req.resource, key, err)
		return err
	}
	if !req.ensures {
		h.client.stores.applied(req.resource, answer)
	}
	h.client.stores.wrote(h, req.resource, answer, raw)
	w := confirmation(answer)
	w.Server, w.Group, w.Kind = h.client.base.Host, req.resource.Group, req.resource.Kind
	w.Unchanged, w.Renewed, w.Created = shown.before(answer)
	w.Created = key.Name != "" && (w.Created && req.method == http.MethodPatch || req.method == http.MethodPost)
	written.Tell(ctx, w)
	return nil
}

// showings are what tables show of an object.
type showings []showing

type showing struct {
	by *table
	e  *entry // nil: it does not show the object
}

// shown returns what the filled tables show of an object.
func (s *stores) shown(kind Kind, key Key) (all showings) {
	s.each(kind, key.Namespace, func(t *table) {
		if t.filled() {
			all = append(all, showing{t, t.entry(key)})
		}
	})
	return all
}

// before compares what tables showed before a write with the answer to the write. It reports
// whether a table showed the state in the answer, whether none showed its generation, and whether
// one that would show the object did not.
func (all showings) before(answer object) (unchanged, renewed, created bool) {
	known, generation := false, uint64(max(0, answer.GetGeneration()))
	renewed = generation > 0
	for _, s := range all {
		switch {
		case s.e != nil && s.e.Is(answer.GetUID()):
			known = true
			unchanged = unchanged || s.e.ResourceVersion() == answer.GetResourceVersion()
			renewed = renewed && s.e.Generation() != generation
		case s.by.handle.selector.field == "" && s.by.handle.selector.fits(answer):
			created = true
		}
	}
	return unchanged, renewed, created && !known
}

// confirmation returns a write that the server answered with o.
func confirmation(o metav1.Object) written.Write {
	return written.Write{
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(),
		Deleted: o.GetDeletionTimestamp() != nil,
	}
}

// confirmed tells the recorder of a write that the server answered with o.
func confirmed(ctx context.Context, o metav1.Object) { written.Tell(ctx, confirmation(o)) }

// confirmedDeletion tells the recorder of an object that is gone.
func confirmedDeletion(ctx context.Context, key Key, uid types.UID) {
	written.Tell(ctx, written.Write{Namespace: key.Namespace, Name: key.Name, UID: uid, Deleted: true})
}
