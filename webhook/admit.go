package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/util/json"

	"github.com/pintle-go/pintle/internal/jsonfields"
	"github.com/pintle-go/pintle/internal/threeway"
	"github.com/pintle-go/pintle/kube"
)

// admit decides about a request. It has no I/O. A *failed error means that there is no decision.
func (h *hook) admit(ctx context.Context, q *request) (response, error) {
	r := response{UID: q.UID, Allowed: true}
	meta, err := metaOf(q)
	if err != nil {
		return r, err
	}
	switch {
	case !slices.Contains([]string{opCreate, opUpdate, opDelete, opConnect}, q.Operation):
		return r, bad("the operation %q is unknown", q.Operation)
	case !slices.Contains(h.operations(), q.Operation), q.DryRun && h.settings.SideEffects:
		return r, nil
	}
	c := &call{request: h.admission(q, meta)}
	ctx = context.WithValue(ctx, callKey{}, c)
	if h.verb == validates {
		err = h.validate(ctx, q)
	} else if q.Operation != opConnect && (h.subresource != "" || meta.Metadata.DeletionTimestamp == nil) {
		r.Patch, err = h.mutate(ctx, q)
	}
	r.Warnings = c.told()
	if len(r.Patch) > 0 {
		r.PatchType = jsonPatch
	}
	switch problem := (*failed)(nil); {
	case err == nil || errors.As(err, &problem):
		return r, err
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return r, context.Cause(ctx) // a function that stops in time has decided nothing
	}
	group := schema.GroupKind{Group: q.Kind.Group, Kind: q.Kind.Kind}
	r.Allowed, r.Patch, r.PatchType, r.Status = false, nil, "", refusal(err, group, c.request.Name)
	return r, nil
}

// objectMeta is the part of an object that decides whether a function runs.
type objectMeta struct {
	Metadata struct {
		Name              string  `json:"name"`
		DeletionTimestamp *string `json:"deletionTimestamp"`
	} `json:"metadata"`
}

// metaOf reads the metadata of the object of a request. A deletion has only an old one.
func metaOf(q *request) (meta objectMeta, err error) {
	object := q.Object
	if isNothing(object) {
		object = q.OldObject
	}
	if isNothing(object) {
		return meta, bad("the request has no object")
	}
	if err := json.Unmarshal(object, &meta, jsontext.AllowInvalidUTF8(true)); err != nil {
		return meta, bad("decode the object's metadata: %w", err)
	}
	return meta, nil
}

func (h *hook) admission(q *request, meta objectMeta) Admission {
	a := Admission{
		UID: q.UID, Operation: q.Operation, Kind: kube.GVK(q.Kind), RequestKind: kube.GVK(q.Kind),
		Subresource: q.Subresource, Namespace: q.Namespace, Name: q.Name, User: q.UserInfo, DryRun: q.DryRun,
	}
	if q.RequestKind != nil {
		a.RequestKind = kube.GVK(*q.RequestKind)
	}
	if a.Name == "" {
		a.Name = meta.Metadata.Name // a deletion of a collection tells no name
	}
	if !isNothing(q.Options) {
		a.Options = q.Options
	}
	return a
}

// isFor returns an error if a request is not about the objects of the hook. Such a request is one of
// another release of the program.
func (h *hook) isFor(q *request) *failed {
	main := h.subresource == "" && kube.GVK(q.Kind) == h.kind.GVK
	part := h.subresource != "" && q.Resource.Group == h.kind.Group && q.Resource.Version == h.kind.Version
	if q.Subresource == h.subresource && (main || part) {
		return nil
	}
	kind := kube.GVK(q.Kind)
	return bad("this hook is for %s of %s, and the request is for %s of %s (subresource %q)", h.object(),
		h.kind.GroupVersion(), kind.Kind, kind.GroupVersion(), q.Subresource)
}

// validate calls the function of an operation.
func (h *hook) validate(ctx context.Context, q *request) error {
	switch q.Operation {
	case opDelete:
		return h.withObject(ctx, q.OldObject, h.delete)
	case opConnect:
		return h.withObject(ctx, q.Object, h.connect)
	case opCreate:
		return h.withObject(ctx, q.Object, h.create)
	}
	changed, err := h.changed(q.OldObject, q.Object)
	if err != nil || !changed {
		return err
	}
	before, err := h.decode(q.OldObject)
	if err != nil {
		return err
	}
	return h.withObject(ctx, q.Object, func(ctx context.Context, after any) error { return h.update(ctx, before, after) })
}

func (h *hook) withObject(ctx context.Context, raw []byte, check func(context.Context, any) error) error {
	o, err := h.decode(raw)
	if err != nil {
		return err
	}
	return check(ctx, o)
}

// changed reports whether an update changes anything but metadata and status. The status counts for the
// hook of a subresource.
func (h *hook) changed(before, after []byte) (bool, error) {
	apart := []string{"/apiVersion", "/kind", "/metadata"}
	if h.subresource == "" {
		apart = append(apart, "/status")
	}
	same, err := threeway.Same(before, after, apart...)
	if err != nil {
		return false, bad("compare the objects: %w", err)
	}
	return !same, nil
}

// decode reads an object as a handle does.
func (h *hook) decode(raw []byte) (any, error) {
	if isNothing(raw) {
		return nil, bad("the request has no object")
	}
	o := h.newObject()
	if loose, ok := o.(runtime.Unstructured); ok {
		content := make(map[string]any)
		if err := kjson.Unmarshal(raw, &content); err != nil {
			return nil, bad("decode the object: %w", err)
		}
		loose.SetUnstructuredContent(content)
		return o, nil
	}
	if err := json.Unmarshal(raw, o, h.read); err != nil {
		return nil, bad("decode the object: %w", err)
	}
	return o, nil
}

// serverOwned are the members that a mutation cannot change: a write of them would be lost, or be of
// another object.
var serverOwned = []string{
	"/apiVersion", "/kind", "/metadata/name", "/metadata/generateName", "/metadata/namespace", "/metadata/uid",
	"/metadata/resourceVersion", "/metadata/generation", "/metadata/managedFields", "/metadata/creationTimestamp",
	"/metadata/deletionTimestamp", "/metadata/deletionGracePeriodSeconds", "/metadata/selfLink",
}

// mutate calls the function and returns the patch that makes its change, nil if there is none.
func (h *hook) mutate(ctx context.Context, q *request) ([]byte, error) {
	o, err := h.decode(q.Object)
	if err != nil {
		return nil, err
	}
	before, err := jsonfields.Encode(o)
	if err != nil {
		return nil, broken("encode the object: %w", err)
	}
	if err := h.change(ctx, o); err != nil {
		return nil, err
	}
	after, err := jsonfields.Encode(o)
	if err != nil {
		return nil, broken("encode the changed object: %w", err)
	}
	fixed := serverOwned
	if h.subresource == "" {
		fixed = append(slices.Clone(fixed), "/status")
	}
	patch, err := threeway.JSONPatch(q.Object, before, after, h.project, fixed...)
	if err != nil {
		return nil, broken("make a patch of the changes that the function to %s %s made: %w", h.verb, h.object(), err)
	}
	return patch, nil
}

// project returns the part of an object that the Go type has.
func (h *hook) project(object []byte) ([]byte, error) {
	o, err := h.decode(object)
	if err != nil {
		return nil, err
	}
	return jsonfields.Encode(o)
}

// outlived is the error of a function that did not return in time.
func (h *hook) outlived() *failed {
	return &failed{
		http.StatusGatewayTimeout, metav1.StatusReasonTimeout,
		fmt.Errorf("the function to %s %s did not return in time", h.verb, h.object()),
	}
}
