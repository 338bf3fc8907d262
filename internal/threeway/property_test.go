package threeway

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// shape is a type in miniature: it tells which parts of a document a projection sees.
type shape struct {
	// kind is 's'calar, 'o'bject, 'p'ointer to an object, 'l'ist of objects, 'm'ap of
	// objects, or 'r' for a list of scalars.
	kind   byte
	fields map[string]field // of objects, pointers, items and entries
}

type field struct {
	shape    shape
	required bool // encoded also if it is zero
}

// project decodes doc into a type of this shape and returns the encoding of that. It also
// returns whether the value is the type's zero value.
func (s shape) project(doc any) (out any, zero bool) {
	switch s.kind {
	case 's':
		n, _ := doc.(float64)
		return n, n == 0
	case 'o', 'p':
		object, ok := doc.(map[string]any)
		if s.kind == 'p' && !ok {
			return nil, true
		}
		members := map[string]any{}
		allZero := true
		for name, f := range s.fields {
			v, zero := f.shape.project(object[name])
			allZero = allZero && zero
			if !zero || f.required {
				members[name] = v
			}
		}
		return members, allZero && s.kind == 'o'
	case 'm':
		entries, _ := doc.(map[string]any)
		m := map[string]any{}
		for key, entry := range entries {
			m[key], _ = shape{'o', s.fields}.project(entry)
		}
		return m, len(m) == 0
	case 'l':
		list, ok := doc.([]any)
		if !ok {
			return nil, true // as for a nil slice
		}
		items := make([]any, len(list))
		for i := range list {
			items[i], _ = shape{'o', s.fields}.project(list[i])
		}
		return items, len(items) == 0
	}
	list, ok := doc.([]any)
	if !ok {
		return nil, true
	}
	return list, len(list) == 0
}

func genShape(t *rapid.T, depth int) shape {
	kinds := []byte("s")
	if depth > 0 {
		kinds = []byte("sssopplmr")
	}
	s := shape{kind: rapid.SampledFrom(kinds).Draw(t, "kind")}
	if s.kind != 's' && s.kind != 'r' {
		s.fields = genFields(t, depth-1)
	}
	return s
}

func genFields(t *rapid.T, depth int) map[string]field {
	fields := map[string]field{}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "name", "x"}), 1, 3,
		rapid.ID[string]).Draw(t, "fields") {
		fields[name] = field{genShape(t, depth), rapid.Bool().Draw(t, "required")}
		if name == "name" {
			fields[name] = field{shape{kind: 's'}, true}
		}
	}
	return fields
}

func genScalar(t *rapid.T) any { return float64(rapid.IntRange(0, 4).Draw(t, "scalar")) }

// genDoc returns a value of the shape. If it is the server's value, it also holds members
// that the shape does not name, and nulls.
func (s shape) genDoc(t *rapid.T, server bool) any {
	switch s.kind {
	case 's':
		return genScalar(t)
	case 'o', 'p':
		if s.kind == 'p' && rapid.Bool().Draw(t, "nil") {
			return nil
		}
		object := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(s.fields)) {
			if rapid.IntRange(0, 3).Draw(t, "present") > 0 {
				if v := s.fields[name].shape.genDoc(t, server); v != nil || server && rapid.Bool().Draw(t, "null") {
					object[name] = v
				}
			}
		}
		if server {
			for _, name := range []string{"u", "w"} {
				switch rapid.IntRange(0, 3).Draw(t, "unknown") {
				case 0:
					object[name] = genScalar(t)
				case 1:
					object[name] = map[string]any{"u": genScalar(t), "l": []any{nil, genScalar(t)}}
				}
			}
		}
		return object
	case 'm':
		m := map[string]any{}
		for _, key := range []string{"j", "k"} {
			if rapid.Bool().Draw(t, "entry") {
				m[key] = shape{'o', s.fields}.genDoc(t, server)
			}
		}
		return m
	case 'l':
		list := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "items") {
			list = append(list, shape{'o', s.fields}.genDoc(t, server))
		}
		return list
	}
	list := []any{}
	for range rapid.IntRange(0, 3).Draw(t, "scalars") {
		list = append(list, genScalar(t))
	}
	return list
}

// change returns doc, a projection, with some parts changed.
func (s shape) change(t *rapid.T, doc any) any {
	if doc == nil || rapid.IntRange(0, 5).Draw(t, "anew") == 0 {
		return s.genDoc(t, false)
	}
	switch doc := doc.(type) {
	case map[string]any:
		out := maps.Clone(doc)
		if s.kind == 'm' {
			for _, key := range slices.Sorted(maps.Keys(out)) {
				switch rapid.IntRange(0, 3).Draw(t, "entry") {
				case 0:
					delete(out, key)
				case 1:
					out[key] = shape{'o', s.fields}.change(t, out[key])
				}
			}
			return out
		}
		for _, name := range slices.Sorted(maps.Keys(s.fields)) {
			switch rapid.IntRange(0, 4).Draw(t, "member") {
			case 0:
				delete(out, name)
			case 1, 2:
				out[name] = s.fields[name].shape.change(t, out[name])
			}
		}
		return out
	case []any:
		out := slices.Clone(doc)
		if len(out) > 0 {
			i := rapid.IntRange(0, len(out)-1).Draw(t, "index")
			switch rapid.IntRange(0, 3).Draw(t, "item") {
			case 0:
				out = slices.Delete(out, i, i+1)
			case 1:
				if s.kind == 'l' {
					out[i] = shape{'o', s.fields}.change(t, out[i])
				}
			case 2:
				out[0], out[i] = out[i], out[0]
			}
		}
		if rapid.IntRange(0, 3).Draw(t, "insert") == 0 {
			var v any = float64(7)
			if s.kind == 'l' {
				v = shape{'o', s.fields}.genDoc(t, false)
			}
			out = slices.Insert(out, rapid.IntRange(0, len(out)).Draw(t, "at"), v)
		}
		return out
	}
	return genScalar(t)
}

// checkUnknown reports members of the server's object that are gone, although the shape
// does not name them and the object around them still exists. It does not look into
// lists, because items of lists may be gone.
func (s shape) checkUnknown(at string, before, after any) error {
	b, ok := before.(map[string]any)
	a, both := after.(map[string]any)
	if !ok || !both && s.kind != 'o' {
		return nil
	}
	for name, had := range b {
		f, known := s.fields[name]
		if s.kind == 'm' {
			if _, still := a[name]; !still {
				continue
			}
			f, known = field{shape: shape{'o', s.fields}}, true
		}
		if !known {
			if has := a[name]; !reflect.DeepEqual(has, had) {
				return fmt.Errorf("%s/%s was %v, is %v", at, name, had, has)
			}
			continue
		}
		if err := f.shape.checkUnknown(at+"/"+name, had, a[name]); err != nil {
			return err
		}
	}
	return nil
}

// mergePatch is an implementation of RFC 7386 on its own. It judges the patches of this
// package.
func mergePatch(target, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	t, ok := target.(map[string]any)
	if !ok {
		t = map[string]any{}
	}
	out := maps.Clone(t)
	for name, value := range p {
		if value == nil {
			delete(out, name)
		} else {
			out[name] = mergePatch(out[name], value)
		}
	}
	return out
}

func mustJSON(t rapid.TB, v any) []byte {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func decodeJSON(t rapid.TB, text []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

// genType draws a type, an object with members that the type does not know, and what the type shows of it.
func genType(t *rapid.T) (root shape, project func([]byte) ([]byte, error), raw, before []byte) {
	root = shape{'o', genFields(t, 3)}
	project = func(text []byte) ([]byte, error) {
		out, _ := root.project(decodeJSON(t, text))
		return json.Marshal(out)
	}
	raw = mustJSON(t, root.genDoc(t, true))
	before, err := project(raw)
	if err != nil {
		t.Fatal(err)
	}
	return root, project, raw, before
}

func TestProperties(t *testing.T) {
	var patches, refused int
	rapid.Check(t, func(t *rapid.T) {
		root, project, raw, before := genType(t)
		if patch, err := Patch(raw, before, before, project); patch != nil || err != nil {
			t.Fatalf("no change: got %s, %v", patch, err)
		}
		after, err := project(mustJSON(t, root.change(t, decodeJSON(t, before))))
		if err != nil {
			t.Fatal(err)
		}
		patch, err := Patch(raw, before, after, project)
		if errors.Is(err, ErrAmbiguous) {
			refused++
			return
		}
		if err != nil {
			t.Fatalf("%v\nraw    %s\nbefore %s\nafter  %s", err, raw, before, after)
		}
		patches++
		if (patch == nil) != reflect.DeepEqual(decodeJSON(t, before), decodeJSON(t, after)) {
			t.Fatalf("patch %s of change from %s to %s", patch, before, after)
		}
		if patch == nil {
			return
		}
		have := decodeJSON(t, raw)
		next := mergePatch(have, decodeJSON(t, patch))
		if got, _ := root.project(next); !reflect.DeepEqual(got, decodeJSON(t, after)) {
			t.Fatalf("got %v\nraw    %s\nbefore %s\nafter  %s\npatch  %s", got, raw, before, after, patch)
		}
		if err := root.checkUnknown("", have, next); err != nil {
			t.Fatalf("lost: %v\nraw    %s\nbefore %s\nafter  %s\npatch  %s", err, raw, before, after, patch)
		}
		again, err := Patch(mustJSON(t, next), after, after, project)
		if again != nil || err != nil {
			t.Fatalf("again: %s, %v", again, err)
		}
	})
	t.Logf("%d patches, %d refused as ambiguous", patches, refused)
	if refused > patches/4 {
		t.Errorf("%d of %d changes were refused", refused, refused+patches)
	}
}
