package crd

import (
	"encoding/json"
	"errors"
	"iter"
	"reflect"
	"testing"

	"github.com/pintle-go/pintle/internal/jsonfields"
	"github.com/pintle-go/pintle/internal/jsonfields/drawn"
	"pgregory.net/rapid"
)

// If a type has a schema, the JSON that encoding/json writes of its values fits the
// schema, loses nothing and can be read back. Every refusal happens when the definition
// is made.
func TestSchemaAcceptsWhatIsWritten(t *testing.T) {
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		typ := drawType(t, 2)
		b := builder{}
		s := b.root(typ)
		if len(b.errs) > 0 || jsonfields.Check(typ) != nil {
			return
		}
		accepted++
		v := reflect.New(typ)
		drawn.Fill(t, v.Elem(), 5)
		text, err := json.Marshal(v.Interface())
		if err != nil {
			t.Fatal(err)
		}
		value, err := decodeJSON(text)
		if err != nil {
			t.Fatal(err)
		}
		value = withoutNulls(value)
		whole := *s
		for p := range whole.walk() {
			p.Required = nil // the values have no nulls
		}
		if found := append(violations(&whole, value, ""), unknownFields(&whole, value, "")...); len(found) > 0 {
			t.Fatalf("%s writes %s: %v\n%s", typ, text, found, asJSON(s))
		}
		if err := json.Unmarshal(text, reflect.New(typ).Interface()); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("%d types were accepted", accepted)
	if accepted == 0 {
		t.Error(errors.New("no type was accepted"))
	}
}

// Embeds is embedded in the drawn types.
type Embeds struct {
	In  []letter        `json:"in"`
	Out map[string]bool `json:"out,omitempty"`
}

type letter byte

var tagged = []reflect.Type{
	reflect.TypeFor[int](), reflect.TypeFor[string](), reflect.TypeFor[bool](), reflect.TypeFor[*string](),
	reflect.TypeFor[uint8](),
	reflect.TypeFor[[]string](), reflect.TypeFor[map[string]int](), reflect.TypeFor[*Embeds](), reflect.TypeFor[float64](),
	reflect.TypeFor[any](), reflect.TypeFor[[2]byte](), reflect.TypeFor[[2]letter](), reflect.TypeFor[[]letter](),
	reflect.TypeFor[**bool](),
	reflect.TypeFor[json.Number](), reflect.TypeFor[[]json.Number](), reflect.TypeFor[[]byte](), reflect.TypeFor[*bool](),
}

// drawType draws a struct type that the author of a kind might write.
func drawType(t *rapid.T, depth int) reflect.Type {
	var fields []reflect.StructField
	for _, name := range []string{"A", "B", "C", "D", "E"}[:rapid.IntRange(1, 5).Draw(t, "fields")] {
		f := reflect.StructField{Name: name, Type: rapid.SampledFrom(tagged).Draw(t, "type")}
		if depth > 0 && rapid.IntRange(0, 3).Draw(t, "nested") == 0 {
			f.Type = drawType(t, depth-1)
		}
		tag := rapid.SampledFrom([]string{name, "a b", "-"}).Draw(t, "name")
		tag += rapid.SampledFrom([]string{"", ",", ",omitempty", ",omitzero", ",string", ",string,omitempty"}).Draw(t,
			"options")
		f.Tag = reflect.StructTag(`json:"` + tag + `"`)
		fields = append(fields, f)
	}
	if rapid.Bool().Draw(t, "embeds") {
		e := reflect.TypeFor[Embeds]()
		if rapid.Bool().Draw(t, "by pointer") {
			e = reflect.PointerTo(e)
		}
		fields = append(fields, reflect.StructField{Name: "Embeds", Type: e, Anonymous: true})
	}
	return reflect.StructOf(fields)
}

// withoutNulls returns a value without the nulls of nil pointers, lists and maps. A
// client leaves these out.
func withoutNulls(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if value == nil {
				delete(v, name)
				continue
			}
			v[name] = withoutNulls(value)
		}
	case []any:
		for i := range v {
			v[i] = withoutNulls(v[i])
		}
	}
	return v
}

// walk yields a schema and every schema in it.
func (s *Schema) walk() iter.Seq[*Schema] {
	return func(yield func(*Schema) bool) { s.each(yield) }
}

func (s *Schema) each(yield func(*Schema) bool) bool {
	if s == nil {
		return true
	}
	if !yield(s) || !s.Items.each(yield) || !s.values().each(yield) {
		return false
	}
	for _, p := range s.Properties {
		if !p.each(yield) {
			return false
		}
	}
	return true
}
