package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube/internal/owned"
)

// Manager is a field manager of an object: who wrote a field, and how.
type Manager struct {
	Name        string
	Operation   metav1.ManagedFieldsOperationType // Apply or Update
	Subresource string
}

// String returns "web-operator (Apply)" or "kubectl-edit (Update of status)".
func (m Manager) String() string {
	if m.Subresource == "" {
		return m.Name + " (" + string(m.Operation) + ")"
	}
	return m.Name + " (" + string(m.Operation) + " of " + m.Subresource + ")"
}

// Managers asks the server for the field managers that own fields of the object of
// a change, by the paths that [Change.Fields] returns. The manager that wrote last
// is the first. A path into a list names the managers of any of the list's items. It
// returns nothing for an object that is gone or was made anew.
func (c Change) Managers(ctx context.Context, paths ...string) (map[string][]Manager, error) {
	if c.table == nil {
		return nil, nil
	}
	h := c.table.handle
	kind, err := h.client.discovery.resolve(ctx, h.kind)
	if err != nil {
		return nil, &Error{Verb: "get", Kind: c.Kind(), Namespace: c.Key.Namespace, Name: c.Key.Name, Err: err}
	}
	req := &request{
		verb: "get", method: http.MethodGet, resource: kind, namespace: c.Key.Namespace, name: c.Key.Name,
		accept: "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
	}
	body, _, err := h.client.roundTrip(ctx, req)
	if err != nil {
		return nil, err
	}
	var o metav1.PartialObjectMetadata
	if err := json.Unmarshal(body, &o); err != nil {
		return nil, req.wrap(err)
	}
	if o.UID != c.UID() {
		return nil, nil
	}
	entries := o.ManagedFields
	slices.SortStableFunc(entries, func(a, b metav1.ManagedFieldsEntry) int {
		return cmp.Compare(unixOf(b.Time), unixOf(a.Time))
	})
	managers := make(map[string][]Manager)
	for _, e := range entries {
		if e.FieldsV1 == nil {
			continue
		}
		fields, err := owned.Parse(e.FieldsV1.GetRawBytes())
		if err != nil {
			return nil, req.wrap(err)
		}
		for _, path := range paths {
			if fields.Touch(path) {
				managers[path] = append(managers[path], Manager{e.Manager, e.Operation, e.Subresource})
			}
		}
	}
	return managers, nil
}

func unixOf(t *metav1.Time) int64 {
	if t == nil {
		return 0
	}
	return t.Unix()
}
