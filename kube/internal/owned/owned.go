// Package owned reads from an object the fields that a field manager owns, as
// its entry in metadata.managedFields names them: KEP-555, in the format FieldsV1
// of sigs.k8s.io/structured-merge-diff (fieldpath/serialize.go).
package owned

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Fields is a set of fields. It is read only, and may be shared.
type Fields struct{ root map[string]any }

// Parse reads a set in the format FieldsV1.
func Parse(raw []byte) (*Fields, error) {
	var root map[string]any
	if err := json.Unmarshal(raw, &root); err != nil {
		return nil, fmt.Errorf("read managed fields: %w", err)
	}
	return &Fields{root}, nil
}

// Digest is of the values that an object has in a set of fields, and of which it
// lacks.
type Digest struct {
	sum [sha256.Size]byte
	// Whole: it lacks none.
	Whole bool
}

// Of returns the digest of an object in JSON. Two objects of one Go type that
// encodes itself alike have the same digest if, and as far as anybody will ever
// see only if, no field of the set differs.
func (f *Fields) Of(object []byte) (d Digest, err error) {
	d64 := json.NewDecoder(bytes.NewReader(object))
	d64.UseNumber() // integers above 2^53 differ too
	var value any
	if err := d64.Decode(&value); err != nil {
		return d, fmt.Errorf("read object: %w", err)
	}
	w := digester{h: sha256.New(), whole: true}
	w.children(f.root, value)
	if w.err != nil {
		return d, fmt.Errorf("read managed fields: %w", w.err)
	}
	w.h.Sum(d.sum[:0])
	d.Whole = w.whole
	return d, nil
}

type digester struct {
	h     hash.Hash
	whole bool // no field is missing
	err   error
}

// children adds the fields of a set within a value.
func (w *digester) children(fields map[string]any, value any) {
	for _, path := range slices.Sorted(maps.Keys(fields)) {
		within, ok := fields[path].(map[string]any)
		if !ok {
			w.fail(path)
			return
		}
		found, exists := value, value != nil
		if path != "." {
			found, exists = w.find(path, value)
		}
		fmt.Fprintf(w.h, "%d %q %t\n", len(within), path, exists)
		switch {
		case !exists:
			w.whole = false
		case path == ".":
		case len(within) == 0:
			w.value(found)
		default:
			w.children(within, found)
		}
	}
}

// value adds a value with all that is in it.
func (w *digester) value(value any) {
	raw, err := json.Marshal(value) // sorts the members of objects
	if err != nil && w.err == nil {
		w.err = err
	}
	_, _ = w.h.Write(raw) // never fails
}

// find returns the element of a path within a value.
func (w *digester) find(path string, value any) (found any, exists bool) {
	kind, rest, ok := strings.Cut(path, ":")
	if !ok {
		w.fail(path)
		return nil, false
	}
	switch kind {
	case "f": // a member, by its name
		members, _ := value.(map[string]any)
		found, exists = members[rest]
		return found, exists
	case "k": // an item of a list, by the members that are its key
		var key map[string]any
		if !w.parse(path, rest, &key) {
			return nil, false
		}
		return item(value, func(v any) bool {
			members, _ := v.(map[string]any)
			for name, want := range key {
				if is, ok := members[name]; !ok || !reflect.DeepEqual(is, want) {
					return false
				}
			}
			return members != nil
		})
	case "v": // an item of a set, by its value
		var want any
		if !w.parse(path, rest, &want) {
			return nil, false
		}
		return item(value, func(v any) bool { return reflect.DeepEqual(v, want) })
	case "i": // an item of a list, by its place
		var index int
		if !w.parse(path, rest, &index) {
			return nil, false
		}
		if list, _ := value.([]any); index >= 0 && index < len(list) {
			return list[index], true
		}
		return nil, false
	}
	w.fail(path)
	return nil, false
}

func item(list any, is func(any) bool) (found any, exists bool) {
	items, _ := list.([]any)
	for _, v := range items {
		if is(v) {
			return v, true
		}
	}
	return nil, false
}

// parse reads the JSON in a path.
func (w *digester) parse(path, raw string, into any) bool {
	d := json.NewDecoder(strings.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		w.fail(path)
		return false
	}
	return true
}

func (w *digester) fail(path string) {
	if w.err == nil {
		w.err = fmt.Errorf("%q is no path of FieldsV1", path)
	}
}
