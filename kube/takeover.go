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

// maxTakeOvers bounds how often an apply takes over fields that their former managers get
// back.
const maxTakeOvers = 3

// takeOver takes the answer to an apply and makes the fields of former field managers
// those of the field manager that applied. Before is the last apply of this process to the
// same part of the object, if it is known.
func (h *handle) takeOver(ctx context.Context, req *request, before ensured, applied object) error {
	heir := successor{
		req.query.Get("fieldManager"), req.subresource, req.resource.GroupVersion().String(), h.write.TakeOver,
	}
	if len(heir.former) > 0 {
		settled, err := h.move(ctx, req, applied, maxTakeOvers, heir.takeOver)
		if err == nil && !settled {
			err = req.wrap(fmt.Errorf("take over the fields of %q: they own fields again after %d tries: "+
				"does the predecessor still run, or does a webhook change metadata.managedFields?",
				heir.former, maxTakeOvers))
		}
		if err != nil {
			return err
		}
	}
	return h.restore(ctx, req, heir, before, applied)
}

// restore gives back to the manager of an apply what it has applied before somebody
// removed the managed fields of the object. If this process does not know what that is, or
// may not do so, it logs that fields may stay.
func (h *handle) restore(ctx context.Context, req *request, heir successor, before ensured, applied object) error {
	if !wiped(applied.GetManagedFields()) {
		return nil
	}
	if before.uid == "" || before.uid != applied.GetUID() {
		kept, err := heir.kept(applied.GetManagedFields())
		if err != nil {
			return req.wrap(err)
		}
		if kept {
			h.sayKept(req, applied, nil)
		}
		return nil
	}
	was := make(map[string]any)
	if before.fields != nil {
		was = before.fields.Set()
	}
	decide := func(entries []metav1.ManagedFieldsEntry) ([]metav1.ManagedFieldsEntry, error) {
		return heir.restore(entries, was)
	}
	_, err := h.move(ctx, req, applied, 1, decide)
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		h.sayKept(req, applied, err)
		return nil
	}
	return err
}

// sayKept logs that fields may stay, and why the server refuses to remove them, if it does.
func (h *handle) sayKept(req *request, applied object, refused error) {
	key := Key{req.namespace, req.name}
	if !h.client.warnings.fresh(fmt.Sprint("managed fields ", req.resource.Kind, key, applied.GetUID(), req.subresource)) {
		return
	}
	log := h.client.logger.With("kind", req.resource.Kind, "object", key, "subresource", req.subresource,
		"fieldManager", req.query.Get("fieldManager"))
	if refused != nil {
		log = log.With("error", refused)
	}
	log.Warn("the managed fields of an object were removed: fields that an earlier apply set and this one " +
		"does not set stay until somebody removes them")
}

// move replaces the managed fields of an object as decide says, and applies again, which
// removes the fields that the apply does not set. It does so until decide returns nil, then
// it returns true, or until it has done it as often as the limit says.
func (h *handle) move(
	ctx context.Context, req *request, applied object, limit int,
	decide func([]metav1.ManagedFieldsEntry) ([]metav1.ManagedFieldsEntry, error),
) (settled bool, err error) {
	done := 0
	for try := 1; ; try++ {
		was := applied.GetManagedFields()
		fields, err := decide(was)
		switch {
		case err != nil:
			return false, req.wrap(err)
		case fields == nil:
			return true, nil
		case done == limit:
			return false, nil
		}
		rv, err := h.replaceManagedFields(ctx, req, applied.GetResourceVersion(), fields)
		switch {
		case err == nil:
			done++
		case !apierrors.IsConflict(err) || try == maxConflicts:
			return false, err
		}
		moved := err == nil
		err = h.applies(ctx, req, applied)
		if moved && apierrors.IsInvalid(err) {
			// Without the moved fields the object is not valid. The next apply would be
			// refused too.
			if _, err := h.replaceManagedFields(ctx, req, rv, was); err != nil {
				return false, err
			}
		}
		if err != nil {
			return false, err
		}
	}
}

// replaceManagedFields returns the new resource version. It returns a conflict if the
// object has another resource version than rv.
func (h *handle) replaceManagedFields(
	ctx context.Context, applied *request, rv string, fields []metav1.ManagedFieldsEntry,
) (string, error) {
	patch, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/managedFields", "value": fields},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": rv},
	})
	if err != nil {
		return "", applied.wrap(fmt.Errorf("encode managed fields: %w", err))
	}
	// The server ignores managedFields in a patch of the status.
	req, err := h.requestFor(ctx, "take over", http.MethodPatch, Key{applied.namespace, applied.name})
	if err != nil {
		return "", err
	}
	req.query, req.contentType, req.body, req.ensures = h.writeQuery(), string(types.JSONPatchType), patch, applied.ensures
	is := h.newObject()
	err = h.writes(ctx, req, Key{req.namespace, req.name}, is)
	return is.GetResourceVersion(), err
}

// beforeFirstApply is the field manager to which the server gives all fields of an object
// that has no managed fields when somebody applies to it.
const beforeFirstApply = "before-first-apply"

// successor is a field manager that applies an object or its subresource, after former
// field managers that wrote it by any verb.
type successor struct {
	manager, subresource, apiVersion string
	former                           []string
}

// takeOver returns the managed fields of an object, in which the successor owns the
// fields of the former field managers. It returns nil if the former field managers own
// nothing.
func (s successor) takeOver(entries []metav1.ManagedFieldsEntry) (fields []metav1.ManagedFieldsEntry, err error) {
	union := make(map[string]any)
	for _, e := range entries {
		if e.Subresource != s.subresource || e.FieldsV1 == nil || s.is(&e) || !slices.Contains(s.former, e.Manager) {
			fields = append(fields, e)
			continue
		}
		taken, left, err := splitFields(e.FieldsV1.GetRawBytes(), s.subresource)
		if err != nil {
			return nil, err
		}
		if fields, err = appendEntry(fields, e, left); err != nil {
			return nil, err
		}
		merge(union, taken)
	}
	return s.give(fields, union)
}

// restore returns the managed fields of an object, in which the successor owns again what
// it has applied before somebody removed the managed fields. Others own what they own. It
// returns nil if there is nothing to restore.
func (s successor) restore(
	entries []metav1.ManagedFieldsEntry, applied map[string]any,
) (fields []metav1.ManagedFieldsEntry, err error) {
	applied = withoutOwners(applied)
	applies, all, rest, err := s.sets(entries)
	if err != nil {
		return nil, err
	}
	if rest == nil { // somebody applied another part of the object first: nobody owns the fields
		return s.give(slices.Clone(entries), minus(applied, all))
	}
	taken, left := split(rest, applied, applies)
	for _, e := range entries {
		if !s.isRest(&e) {
			fields = append(fields, e)
		} else if fields, err = appendEntry(fields, e, left); err != nil {
			return nil, err
		}
	}
	return s.give(fields, taken)
}

// kept reports that the successor may have applied fields before somebody removed the
// managed fields: the server has given fields to nobody else.
func (s successor) kept(entries []metav1.ManagedFieldsEntry) (bool, error) {
	_, all, rest, err := s.sets(entries)
	return rest != nil && len(minus(rest, all)) > 0, err
}

// sets returns the fields that the successor applies, the fields that have a field manager,
// and those that the server has found when the first field manager applied. The latter are
// nil if there is no such entry of the subresource.
func (s successor) sets(entries []metav1.ManagedFieldsEntry) (applies, all, rest map[string]any, err error) {
	applies, all = make(map[string]any), make(map[string]any)
	for _, e := range entries {
		if e.FieldsV1 == nil {
			continue
		}
		raw := e.FieldsV1.GetRawBytes()
		switch {
		case s.isRest(&e):
			rest = make(map[string]any)
			err = addFields(rest, raw)
		case e.Manager == beforeFirstApply:
		default:
			if err = addFields(all, raw); err == nil && s.is(&e) {
				err = addFields(applies, raw)
			}
		}
		if err != nil {
			return nil, nil, nil, err
		}
	}
	return applies, all, rest, nil
}

// is reports that an entry names the fields that the successor applies.
func (s successor) is(e *metav1.ManagedFieldsEntry) bool {
	return isApplied(e, s.manager, s.subresource)
}

// isRest reports that an entry names the fields that the server found when a field manager
// applied the successor's part of an object without managed fields.
func (s successor) isRest(e *metav1.ManagedFieldsEntry) bool {
	return e.Manager == beforeFirstApply && e.Subresource == s.subresource && e.FieldsV1 != nil
}

// give adds a set of fields to those that the successor applies. It returns nil if the set
// is empty.
func (s successor) give(entries []metav1.ManagedFieldsEntry, set map[string]any) ([]metav1.ManagedFieldsEntry, error) {
	if len(set) == 0 {
		return nil, nil
	}
	into := slices.IndexFunc(entries, func(e metav1.ManagedFieldsEntry) bool { return s.is(&e) })
	union := make(map[string]any)
	if into < 0 { // an apply that sets nothing owns nothing
		into = len(entries)
		entries = append(entries, metav1.ManagedFieldsEntry{
			Manager: s.manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: s.apiVersion,
			FieldsType: "FieldsV1", Subresource: s.subresource,
		})
	} else if err := addFields(union, entries[into].FieldsV1.GetRawBytes()); err != nil {
		return nil, err
	}
	merge(union, set)
	raw, err := json.Marshal(union)
	if err != nil {
		return nil, fmt.Errorf("encode managed fields: %w", err)
	}
	entries[into].FieldsV1 = metav1.NewFieldsV1(string(raw))
	return entries, nil
}

// appendEntry appends an entry with a set of fields. An entry without fields is left out.
func appendEntry(
	entries []metav1.ManagedFieldsEntry, e metav1.ManagedFieldsEntry, set map[string]any,
) ([]metav1.ManagedFieldsEntry, error) {
	if len(set) == 0 {
		return entries, nil
	}
	raw, err := json.Marshal(set)
	if err != nil {
		return nil, fmt.Errorf("encode managed fields: %w", err)
	}
	e.FieldsV1 = metav1.NewFieldsV1(string(raw))
	return append(entries, e), nil
}

// wiped reports that somebody has applied to an object that had no managed fields.
func wiped(entries []metav1.ManagedFieldsEntry) bool {
	return slices.ContainsFunc(entries, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == beforeFirstApply })
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

// split splits a set of fields into those that a field manager has applied before and does
// not apply now, and the rest. An item of a list that it does not apply now is taken with
// all that is in it: the server's defaults alone are no valid item.
func split(set, applied, applies map[string]any) (taken, left map[string]any) {
	taken, left = make(map[string]any), make(map[string]any)
	for name, v := range set {
		within, _ := v.(map[string]any)
		was, known := applied[name].(map[string]any)
		is, still := applies[name].(map[string]any)
		switch {
		case !known, still && len(is) == 0:
			left[name] = v
		case len(was) == 0 && len(within) == 0, !still && isItem(name):
			taken[name] = v
		case len(was) == 0, len(within) == 0:
			left[name] = v // one has set all of it, the other one some of it
		default:
			t, l := split(within, was, is)
			if !still && isShell(l) {
				merge(t, l)
				l = nil
			}
			if len(t) > 0 {
				taken[name] = t
			}
			if len(l) > 0 {
				left[name] = l
			}
		}
	}
	return taken, left
}

// minus returns the fields of a set that are not in another set.
func minus(set, other map[string]any) map[string]any {
	left := make(map[string]any)
	for name, v := range set {
		within, _ := v.(map[string]any)
		there, ok := other[name].(map[string]any)
		switch {
		case !ok:
			left[name] = v
		case len(within) == 0, len(there) == 0:
		default:
			if l := minus(within, there); len(l) > 0 && !isShell(l) {
				left[name] = l
			}
		}
	}
	return left
}

// isItem reports that the name in a set of fields is that of an item of a list, by its key.
func isItem(name string) bool { return len(name) > 1 && name[:2] == "k:" }

// isShell reports that a set has an object or a list, and nothing in it.
func isShell(set map[string]any) bool {
	_, itself := set["."]
	return itself && len(set) == 1
}

// withoutOwners returns a set of fields without the owner references. A process does not
// know by which uids it applied these.
func withoutOwners(set map[string]any) map[string]any {
	return minus(set, map[string]any{"f:metadata": map[string]any{"f:ownerReferences": map[string]any{}}})
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
