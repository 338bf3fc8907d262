package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// takeOver takes the answer to an apply and makes the fields of former field managers
// those of the field manager that applied. Then it applies again, which removes the
// fields that the apply does not set. It goes on until the former field managers own no
// field.
func (h handle) takeOver(ctx context.Context, req *request, applied object) error {
	for try := 1; ; try++ {
		heir := successor{req.query.Get("fieldManager"), req.subresource, h.write.TakeOver}
		fields, err := heir.takeOver(applied.GetManagedFields())
		if err != nil {
			return req.wrap(err)
		}
		if fields == nil {
			return nil
		}
		err = h.replaceManagedFields(ctx, req, applied.GetResourceVersion(), fields)
		if err != nil && (!apierrors.IsConflict(err) || try == maxConflicts) {
			return err
		}
		if err := h.writes(ctx, req, Key{req.namespace, req.name}, applied); err != nil {
			return err
		}
	}
}

// replaceManagedFields returns a conflict if the object has another resource version.
func (h handle) replaceManagedFields(
	ctx context.Context, applied *request, rv string, fields []metav1.ManagedFieldsEntry,
) error {
	patch, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/managedFields", "value": fields},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": rv},
	})
	if err != nil {
		return applied.wrap(fmt.Errorf("encode managed fields: %w", err))
	}
	req, err := h.requestFor(ctx, "take over", http.MethodPatch, Key{applied.namespace, applied.name})
	if err != nil {
		return err
	}
	req.query, req.contentType, req.body, req.ensures = h.writeQuery(), string(types.JSONPatchType), patch, applied.ensures
	return h.writes(ctx, req, Key{req.namespace, req.name}, h.newObject())
}

// successor is a field manager that applies an object or its subresource, after former
// field managers that wrote it by create and update.
type successor struct {
	manager, subresource string
	former               []string
}

// takeOver returns the managed fields of an object, in which the successor owns the
// fields of the former field managers. It returns nil if the former field managers own
// nothing.
func (s successor) takeOver(entries []metav1.ManagedFieldsEntry) (fields []metav1.ManagedFieldsEntry, err error) {
	into, union, changed := -1, make(map[string]any), false
	for _, e := range entries {
		if e.Subresource == s.subresource && e.FieldsV1 != nil {
			switch {
			case e.Operation == metav1.ManagedFieldsOperationApply && e.Manager == s.manager:
				into = len(fields)
				if err := addFields(union, e.FieldsV1.GetRawBytes()); err != nil {
					return nil, err
				}
			case e.Operation == metav1.ManagedFieldsOperationUpdate && slices.Contains(s.former, e.Manager):
				taken, left, err := splitFields(e.FieldsV1.GetRawBytes(), s.subresource)
				if err != nil {
					return nil, err
				}
				if len(taken) == 0 {
					break
				}
				merge(union, taken)
				changed = true
				if len(left) == 0 {
					continue
				}
				if e.FieldsV1, err = fieldsOf(left); err != nil {
					return nil, err
				}
			}
		}
		fields = append(fields, e)
	}
	if !changed || into < 0 { // an apply that sets nothing owns nothing
		return nil, nil
	}
	fields[into].FieldsV1, err = fieldsOf(union)
	return fields, err
}

// splitFields splits a set of fields into the fields that may be taken over and the rest.
// An apply never sends finalizers, and it sends the status only to the status
// subresource, so it would remove these fields.
func splitFields(raw []byte, subresource string) (taken, left map[string]any, err error) {
	taken, left = make(map[string]any), make(map[string]any)
	if err := addFields(taken, raw); err != nil {
		return nil, nil, err
	}
	if status, ok := taken["f:status"]; ok && subresource == "" {
		left["f:status"] = status
		delete(taken, "f:status")
	}
	if metadata, ok := taken["f:metadata"].(map[string]any); ok {
		if finalizers, ok := metadata["f:finalizers"]; ok {
			left["f:metadata"] = map[string]any{"f:finalizers": finalizers}
			delete(metadata, "f:finalizers")
		}
		delete(metadata, ".")
		if len(metadata) == 0 {
			delete(taken, "f:metadata")
		}
	}
	return taken, left, nil
}

func addFields(into map[string]any, raw []byte) error {
	var set map[string]any
	if err := json.Unmarshal(raw, &set); err != nil {
		return fmt.Errorf("read managed fields: %w", err)
	}
	merge(into, set)
	return nil
}

// merge adds a set of fields, in the format FieldsV1, to another set.
func merge(into, set map[string]any) {
	for name, within := range set {
		inner, isSet := within.(map[string]any)
		if there, ok := into[name].(map[string]any); ok && isSet {
			merge(there, inner)
			continue
		}
		into[name] = within
	}
}

func fieldsOf(set map[string]any) (*metav1.FieldsV1, error) {
	raw, err := json.Marshal(set)
	if err != nil {
		return nil, fmt.Errorf("encode managed fields: %w", err)
	}
	return metav1.NewFieldsV1(string(raw)), nil
}
