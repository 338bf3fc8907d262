package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"sort"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube/internal/owned"
	"github.com/pintle-go/pintle/kube/internal/wire"
)

// Fields returns the paths of the fields that a Modified change changed, such as
// spec.replicas, metadata.labels[app] and spec.containers[0].image. The paths are sorted.
// Fields decodes both states, which takes some 100 µs for a Pod. Where a value was added
// or removed whole, the path ends at that value. Fields leaves out resourceVersion,
// generation and managedFields, because they change with every write. Of a view, only the
// fields that it names are known.
func (c Change) Fields() ([]string, error) {
	diff, err := c.Diff()
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, d := range diff {
		paths = append(paths, d.Path)
	}
	return paths, nil
}

// FieldChange is a field that a [Change] has changed. Its values are those that
// encoding/json decodes into an any. A nil value stands for a field that is not there.
type FieldChange struct {
	Path          string
	Before, After any
}

// Diff returns the fields that [Change.Fields] names, with their values.
func (c Change) Diff() ([]FieldChange, error) {
	before := c.before()
	if before == nil || c.is == nil {
		return nil, nil
	}
	was, is, err := c.generics(c.of.codec.Differing(before, c.is))
	if err != nil { // a type may not like what was left out
		was, is, err = c.generics(before, c.is)
	}
	if err != nil {
		return nil, err
	}
	var diff []FieldChange
	appendChanged(&diff, "", was, is)
	// Here and in other places package slices would add 5 to 15 KB to each program.
	sort.Slice(diff, func(i, j int) bool { return diff[i].Path < diff[j].Path })
	return diff, nil
}

// generics decodes two states into maps.
func (c Change) generics(before, now *entry) (was, is map[string]any, err error) {
	if was, err = c.generic(before); err == nil {
		is, err = c.generic(now)
	}
	return was, is, err
}

// generic decodes an entry into maps.
func (c Change) generic(e *entry) (map[string]any, error) {
	o := c.of.newObject()
	err := e.Decode(c.of.codec, o)
	var raw []byte
	if err == nil {
		raw, err = wire.EncodeJSON(o)
	}
	var fields map[string]any
	if err == nil {
		err = json.Unmarshal(raw, &fields)
	}
	if err != nil {
		return nil, &Error{Verb: "compare", Kind: c.Kind(), Namespace: c.Key.Namespace, Name: c.Key.Name, Err: err}
	}
	if meta, ok := fields["metadata"].(map[string]any); ok {
		delete(meta, "resourceVersion")
		delete(meta, "generation")
		delete(meta, "managedFields")
	}
	return fields, nil
}

// appendChanged appends the fields in which two values differ.
func appendChanged(diff *[]FieldChange, path string, a, b any) {
	switch a := a.(type) {
	case map[string]any:
		if b, ok := b.(map[string]any); ok {
			keys := maps.Clone(a)
			maps.Copy(keys, b)
			for key := range keys {
				x, inA := a[key]
				y, inB := b[key]
				if at := member(path, key); inA && inB {
					appendChanged(diff, at, x, y)
				} else {
					*diff = append(*diff, FieldChange{at, x, y})
				}
			}
			return
		}
	case []any:
		if b, ok := b.([]any); ok && len(a) == len(b) {
			for i := range a {
				appendChanged(diff, fmt.Sprintf("%s[%d]", path, i), a[i], b[i])
			}
			return
		}
	}
	if !reflect.DeepEqual(a, b) {
		*diff = append(*diff, FieldChange{path, a, b})
	}
}

// member returns the path of a member. Keys that are no names of fields, such as those of
// labels, are put in brackets.
func member(path, key string) string {
	switch {
	case path == "":
		return key
	case path == "metadata.labels", path == "metadata.annotations", key == "", strings.ContainsAny(key, "./[]"):
		return path + "[" + key + "]"
	}
	return path + "." + key
}

// Manager is a field manager of an object. It names the writer of a field and the kind of
// write. Its counterpart is apimachinery's metav1.ManagedFieldsEntry.
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

// Managers asks the server for the field managers that own fields of the object of a
// change, by the paths that [Change.Fields] returns. The manager that wrote last is the
// first. A path into a list names the managers of any of the list's items. Managers
// returns nothing for an object that is gone or was recreated. Like the store of the
// change, it needs the right to list the kind, and not the right to get.
func (c Change) Managers(ctx context.Context, paths ...string) (map[string][]Manager, error) {
	entries, err := c.managedFields(ctx)
	if err != nil {
		return nil, err
	}
	sort.SliceStable(entries, func(i, j int) bool { return unixOf(entries[i].Time) > unixOf(entries[j].Time) })
	managers := make(map[string][]Manager)
	for _, e := range entries {
		if e.FieldsV1 == nil {
			continue
		}
		fields, err := owned.Parse(e.FieldsV1.GetRawBytes())
		if err != nil {
			return nil, &Error{Verb: "read", Kind: c.Kind(), Namespace: c.Key.Namespace, Name: c.Key.Name, Err: err}
		}
		for _, path := range paths {
			if fields.Touch(path) {
				managers[path] = append(managers[path], Manager{e.Manager, e.Operation, e.Subresource})
			}
		}
	}
	return managers, nil
}

// managedFields lists the object of a change by its name.
func (c Change) managedFields(ctx context.Context) ([]metav1.ManagedFieldsEntry, error) {
	if c.of == nil {
		return nil, nil
	}
	for o, err := range named(c.of.handle, c.Key).metadata().listAll(ctx) {
		switch {
		case err != nil:
			return nil, err
		case o.GetUID() == c.UID():
			return o.GetManagedFields(), nil
		}
	}
	return nil, nil
}

func unixOf(t *metav1.Time) int64 {
	if t == nil {
		return 0
	}
	return t.Unix()
}
