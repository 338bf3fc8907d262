package crd

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// keptPrefix is the prefix of the annotations that hold what a conversion loses. The name of the
// version that has it follows.
const keptPrefix = "crd.pintle.dev/kept-"

// maxKept is how many bytes such an annotation may have. The server allows 256 KiB of annotations.
const maxKept = 200 << 10

// tooLarge is in the place of a note that is larger.
const tooLarge = `"too large"`

// unknown is in the place of a note about an object that cannot be converted back.
const unknown = `"unknown"`

// rest is what a conversion of a value to another version and back loses. Without Fields and Items it
// replaces the value as a whole.
type rest struct {
	Value  json.RawMessage  `json:"v,omitempty"` // the value; none: there was none
	Was    string           `json:"h,omitempty"` // the hash of what came back; none: nothing
	Fields map[string]*rest `json:"f,omitempty"`
	Items  []*item          `json:"i,omitempty"`
}

// item is the rest of an element of a list.
type item struct {
	// ID has the keys of the element, or the hash of what came back.
	ID   string `json:"id"`
	At   int    `json:"n,omitempty"` // the index of an element that did not come back
	Rest *rest  `json:"r,omitempty"` // none: the element is equal to another one that came back, and lost nothing
}

// restOf returns the rest of a value, nil if it came back. The schema is that of the value.
func restOf(value, back any, s *Schema) *rest {
	if cameBack(value, back, s) {
		return nil
	}
	var r *rest
	switch v := value.(type) {
	case map[string]any:
		if b, ok := back.(map[string]any); ok {
			return restOfFields(v, b, s)
		}
	case []any:
		if b, ok := back.([]any); ok {
			r = restOfItems(v, b, s)
		}
	}
	if r != nil {
		if all, _ := r.apply(back, true, s); cameBack(value, all, s) {
			return r
		}
	}
	return &rest{Value: encoded(value), Was: hash(back)}
}

// cameBack reports whether a value equals the one that came back. The API server also converts parts of
// objects. They may come back with more of the fields that the schema requires.
func cameBack(value, back any, s *Schema) bool {
	switch v := value.(type) {
	case map[string]any:
		b, ok := back.(map[string]any)
		for name := range b {
			if _, is := v[name]; !is && !requires(s, name) {
				return false
			}
		}
		for name := range v {
			if part, is := b[name]; !is || !cameBack(v[name], part, fieldOf(s, name)) {
				return false
			}
		}
		return ok
	case []any:
		b, ok := back.([]any)
		return ok && slices.EqualFunc(v, b, func(v, b any) bool { return cameBack(v, b, fieldOf(s, "")) })
	}
	return equalValues(value, back)
}

func restOfFields(value, back map[string]any, s *Schema) *rest {
	r := &rest{Fields: make(map[string]*rest)}
	for name, v := range value {
		if b, is := back[name]; !is {
			r.Fields[name] = &rest{Value: encoded(v)}
		} else if part := restOf(v, b, fieldOf(s, name)); part != nil {
			r.Fields[name] = part
		}
	}
	for name, b := range back {
		if _, is := value[name]; !is && !requires(s, name) {
			r.Fields[name] = &rest{Was: hash(b)}
		}
	}
	if len(r.Fields) == 0 {
		return nil
	}
	return r
}

// restOfItems returns the rest of a list by its elements, or nil if it has to be noted as a whole.
func restOfItems(value, back []any, s *Schema) *rest {
	r := &rest{}
	if !isKeyed(s) {
		if len(value) != len(back) {
			return nil
		}
		some := make(map[string]bool)
		for i := range value {
			r.Items = append(r.Items, &item{ID: idOf(s, back[i]), Rest: restOf(value[i], back[i], fieldOf(s, ""))})
			some[r.Items[i].ID] = some[r.Items[i].ID] || r.Items[i].Rest != nil
		}
		r.Items = slices.DeleteFunc(r.Items, func(i *item) bool { return !some[i.ID] })
		return r
	}
	left := make(map[string]any)
	for _, b := range back {
		left[idOf(s, b)] = b
	}
	for i, v := range value {
		id := idOf(s, v)
		b, is := left[id]
		delete(left, id)
		if !is {
			r.Items = append(r.Items, &item{ID: id, At: i, Rest: &rest{Value: encoded(v)}})
		} else if part := restOf(v, b, fieldOf(s, "")); part != nil {
			r.Items = append(r.Items, &item{ID: id, Rest: part})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(left)) {
		r.Items = append(r.Items, &item{ID: id, Rest: &rest{Was: hash(left[id])}})
	}
	return r
}

// apply returns a value with the rest, where it is still the value that came back. It reports whether
// there is a value then. It does not change the given value.
func (r *rest) apply(value any, is bool, s *Schema) (any, bool) {
	switch v := value.(type) {
	case map[string]any:
		if len(r.Fields) > 0 {
			all := maps.Clone(v)
			for name, part := range r.Fields {
				if part == nil {
					continue
				}
				field, is := v[name]
				if field, is = part.apply(field, is, fieldOf(s, name)); is {
					all[name] = field
				} else {
					delete(all, name)
				}
			}
			return all, true
		}
	case []any:
		if len(r.Items) > 0 {
			return r.applyItems(v, s), true
		}
	}
	switch {
	case len(r.Fields) > 0, len(r.Items) > 0, is && hash(value) != r.Was, !is && r.Was != "":
		return value, is
	case r.Value == nil:
		return nil, false
	}
	own, err := decodeJSON(r.Value)
	if err != nil {
		return value, is
	}
	return own, true
}

func (r *rest) applyItems(list []any, s *Schema) []any {
	parts := make(map[string][]*item)
	for _, i := range r.Items {
		if i != nil {
			parts[i.ID] = append(parts[i.ID], i)
		}
	}
	all := make([]any, 0, len(list))
	for _, v := range list {
		is := true
		if id := idOf(s, v); len(parts[id]) > 0 {
			if part := parts[id][0].Rest; part != nil {
				v, is = part.apply(v, true, fieldOf(s, ""))
			}
			parts[id] = parts[id][1:]
		}
		if is {
			all = append(all, v)
		}
	}
	if !isKeyed(s) {
		return all
	}
	for _, i := range r.Items {
		if i != nil && i.Rest != nil && len(parts[i.ID]) > 0 {
			if v, is := i.Rest.apply(nil, false, fieldOf(s, "")); is {
				all = slices.Insert(all, min(max(i.At, 0), len(all)), v)
			}
		}
	}
	return all
}

// fieldOf returns the schema of a field, or of the elements of a list. It is nil if there is none.
func fieldOf(s *Schema, name string) *Schema {
	switch {
	case s == nil:
		return nil
	case name == "":
		return s.Items
	case s.Properties[name] != nil:
		return s.Properties[name]
	}
	return s.values()
}

func requires(s *Schema, name string) bool { return s != nil && slices.Contains(s.Required, name) }

// isKeyed reports whether a list is a map by keys.
func isKeyed(s *Schema) bool { return s != nil && s.ListType == "map" }

// idOf returns what tells an element of a list apart.
func idOf(s *Schema, v any) string {
	o, ok := v.(map[string]any)
	if !isKeyed(s) || !ok {
		return hash(v)
	}
	keys := make([]any, 0, len(s.ListMapKeys))
	for _, k := range s.ListMapKeys {
		keys = append(keys, o[k])
	}
	return string(encoded(keys))
}

func encoded(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode what was decoded: %v", err)) // it cannot be
	}
	return text
}

func hash(v any) string {
	sum := sha256.Sum256(encoded(v))
	return hex.EncodeToString(sum[:8])
}

// lost returns the note of what an object loses that came back as another one, or nothing.
func (o *object) lost(back *object, s *Schema) (note string, err error) {
	if sameFields(o, back) {
		return "", nil
	}
	was, err := o.values()
	if err != nil {
		return "", err
	}
	is, err := back.values()
	if err != nil {
		return "", err
	}
	if r := restOf(was, is, s); r != nil {
		note = string(encoded(r))
	}
	return note, nil
}

// restore adds what a note kept. A note that somebody has changed must neither stop the conversion nor
// bring in what the schema does not allow, because the server does not validate converted objects.
func (o *object) restore(note string, s *Schema) error {
	var r rest
	if valid := json.Unmarshal([]byte(note), &r) == nil; !valid {
		return nil
	}
	is, err := o.values()
	if err != nil {
		return err
	}
	value, _ := r.apply(is, true, s)
	all, ok := value.(map[string]any)
	if !ok || len(missing(violations(s, all, ""), violations(s, is, ""))) > 0 {
		return nil
	}
	for _, name := range alwaysThere {
		delete(all, name)
	}
	o.setValues(all)
	return nil
}

// values decodes the fields.
func (o *object) values() (map[string]any, error) {
	all := make(map[string]any, len(o.fields))
	for name, raw := range o.fields {
		v, err := decodeJSON(raw)
		if err != nil {
			return nil, fmt.Errorf("decode %s: %w", name, err)
		}
		all[name] = v
	}
	return all, nil
}

// setValues replaces the fields.
func (o *object) setValues(all map[string]any) {
	o.fields = make(map[string]jsontext.Value, len(all))
	for name, v := range all {
		o.fields[name] = jsontext.Value(encoded(v))
	}
}
