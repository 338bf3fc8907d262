package jsonfields_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pintle-go/pintle/internal/jsonfields"
	"pgregory.net/rapid"
)

// Structs to embed, whose fields share names at several depths.
type (
	A struct {
		X int `json:"x"`
		Y string
		Z bool `json:"z,omitempty"`
	}
	B struct {
		X string `json:",omitempty"`
		Y []int  `json:"Y"`
		A
	}
	C struct {
		*A
		Y int `json:"-"`
		W int `json:"-,"`
	}
	D struct {
		B
		C
		V float64 `json:"v,string"`
	}
	E struct {
		*E
		X *int `json:"x,omitzero"`
	}
	F struct {
		A `json:"a"`
		B `json:"b,omitempty"`
		hidden
	}
	hidden struct {
		X, Shown int
		unseen   int
	}
	G int
	H struct {
		*B
		*hiddenToo `json:"-"`
		Y          map[string]int `json:"Y,omitempty"`
	}
	hiddenToo struct{ T int }
)

var embeddable = []reflect.Type{
	reflect.TypeFor[A](), reflect.TypeFor[B](), reflect.TypeFor[C](), reflect.TypeFor[D](), reflect.TypeFor[E](),
	reflect.TypeFor[F](), reflect.TypeFor[G](), reflect.TypeFor[H](),
}

var plainTypes = []reflect.Type{
	reflect.TypeFor[int](), reflect.TypeFor[string](), reflect.TypeFor[bool](), reflect.TypeFor[*string](),
	reflect.TypeFor[[]string](), reflect.TypeFor[map[string]int](), reflect.TypeFor[A](), reflect.TypeFor[*A](),
	reflect.TypeFor[float32](), reflect.TypeFor[any](), reflect.TypeFor[[2]byte](), reflect.TypeFor[**int](),
	reflect.TypeFor[time.Duration](), reflect.TypeFor[[]G](), reflect.TypeFor[json.Number](),
}

var (
	tagNames   = []string{"", "", "", "x", "Y", "z", "-", "a b", `q"`, "é", "→", "a.b/c", "<&>"}
	tagOptions = []string{"", "", ",omitempty", ",omitzero", ",string", ",", ",inline", ",string,omitempty", ",omitempty,omitzero"}
	fieldNames = []string{"X", "Y", "Z", "W", "Field", "unexported"}
)

// drawStruct draws a struct type with fields of many kinds, tags and depths.
func drawStruct(t *rapid.T, depth int) reflect.Type {
	var fields []reflect.StructField
	used := map[string]bool{}
	for range rapid.IntRange(0, 6).Draw(t, "fields") {
		f := reflect.StructField{Name: rapid.SampledFrom(fieldNames).Draw(t, "name")}
		switch rapid.IntRange(0, 5).Draw(t, "what") {
		case 0:
			f.Type = rapid.SampledFrom(embeddable).Draw(t, "embedded")
			f.Name, f.Anonymous = f.Type.Name(), true
			if f.Type.Kind() == reflect.Struct && rapid.Bool().Draw(t, "by pointer") {
				f.Type = reflect.PointerTo(f.Type)
			}
		case 1:
			if depth > 0 {
				f.Type = drawStruct(t, depth-1)
				break
			}
			fallthrough
		default:
			f.Type = rapid.SampledFrom(plainTypes).Draw(t, "type")
		}
		if f.Name == "unexported" {
			f.PkgPath = "github.com/pintle-go/pintle/internal/jsonfields_test"
		}
		if used[f.Name] {
			continue
		}
		used[f.Name] = true
		tag := rapid.SampledFrom(tagNames).Draw(t, "tag") + rapid.SampledFrom(tagOptions).Draw(t, "options")
		if tag != "" {
			f.Tag = reflect.StructTag(fmt.Sprintf("json:%q", tag))
		}
		fields = append(fields, f)
	}
	return reflect.StructOf(fields)
}

// fill sets a value to something that is often, and not always, empty.
func fill(t *rapid.T, v reflect.Value, depth int) {
	if !v.CanSet() || rapid.IntRange(0, 3).Draw(t, "zero") == 0 {
		return
	}
	switch v.Kind() {
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64Range(-3, 1<<40).Draw(t, "int"))
	case reflect.Uint8:
		v.SetUint(rapid.Uint64Range(0, 255).Draw(t, "byte"))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(rapid.IntRange(-100, 100).Draw(t, "float")) / 4)
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.String:
		if v.Type() == reflect.TypeFor[json.Number]() {
			v.SetString(rapid.SampledFrom([]string{"", "0", "-1", "1.5", "1e3"}).Draw(t, "number"))
			return
		}
		v.SetString(rapid.SampledFrom([]string{"", "a", "true", "12", `"q"`, "é<&>", "null"}).Draw(t, "string"))
	case reflect.Interface:
		v.Set(reflect.ValueOf(rapid.SampledFrom([]any{1.5, "s", true, []any{"x", nil}, map[string]any{"k": "v"}}).Draw(t, "any")))
	case reflect.Pointer:
		if depth > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem(), depth-1)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), rapid.IntRange(0, 3).Draw(t, "length"), 3))
		for i := range v.Len() {
			fill(t, v.Index(i), depth-1)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(t, v.Index(i), depth-1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for _, key := range []string{"a", "b"}[:rapid.IntRange(0, 2).Draw(t, "entries")] {
			value := reflect.New(v.Type().Elem()).Elem()
			fill(t, value, depth-1)
			v.SetMapIndex(reflect.ValueOf(key), value)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), depth-1)
		}
	}
}

// byFields encodes a struct by the members that Of names; their values are
// encoding/json's.
func byFields(v reflect.Value) ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for _, f := range jsonfields.Of(v.Type()) {
		value, ok := f.Value(v)
		if !ok || f.OmitEmpty && isEmpty(value) || f.OmitZero && value.IsZero() {
			continue
		}
		// A struct of one field, with a name that nothing takes from it.
		options := ""
		if f.Quoted {
			options = ",string"
		}
		one := reflect.New(reflect.StructOf([]reflect.StructField{
			{Name: "One", Type: f.Type, Tag: reflect.StructTag(`json:"one` + options + `"`)},
		})).Elem()
		one.Field(0).Set(exported(value))
		text, err := json.Marshal(one.Interface())
		if err != nil {
			return nil, err
		}
		name, err := json.Marshal(f.Member)
		if err != nil {
			return nil, err
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.Write(name)
		b.Write(bytes.TrimSuffix(bytes.TrimPrefix(text, []byte(`{"one"`)), []byte("}")))
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// exported returns a value that may be copied, also if its field is embedded
// and not exported.
func exported(v reflect.Value) reflect.Value {
	if v.CanInterface() {
		return v
	}
	return reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Elem()
}

func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}

// The members, their order and their values are those of encoding/json.
func TestSameAsEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		typ := drawStruct(t, 2)
		v := reflect.New(typ).Elem()
		fill(t, v, 5)
		want, err := json.Marshal(v.Addr().Interface())
		if err != nil {
			t.Skip(err)
		}
		got, err := byFields(v)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Fatalf("%s:\ngot  %s\nwant %s", typ, got, want)
		}
	})
}

// Embedded structs that are not exported, which reflection cannot make.
func TestUnexportedEmbedding(t *testing.T) {
	type both struct {
		hidden
		*hiddenToo
		A `json:"in"`
	}
	type named struct {
		hidden `json:"hidden"`
		Y      int
	}
	for _, v := range []any{&both{hidden{1, 2, 3}, &hiddenToo{4}, A{}}, &both{}, &named{hidden{1, 2, 3}, 4}, &F{hidden: hidden{X: 3}}, &H{}} {
		want, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := byFields(reflect.ValueOf(v).Elem()); err != nil || string(got) != string(want) {
			t.Errorf("%T: got %s, %v, want %s", v, got, err, want)
		}
	}
	_ = hidden{}.unseen
	structs := jsonfields.Structs(reflect.TypeFor[D]())
	if s := fmt.Sprint(structs); strings.Count(s, "jsonfields_test.A") != 1 || len(structs) != 4 {
		t.Errorf("structs: %v", structs)
	}
}
