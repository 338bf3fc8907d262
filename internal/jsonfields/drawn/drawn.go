// Package drawn draws Go types and their values. Tests use them to compare how several
// packages handle a type's JSON.
package drawn

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"pgregory.net/rapid"
)

// The types to embed have fields that share names at several depths.

type (
	// A is a type to embed.
	A struct {
		X int `json:"x"`
		Y string
		Z bool `json:"z,omitempty"`
	}
	// B is a type to embed.
	B struct {
		X string `json:",omitempty"`
		Y []int  `json:"Y"`
		A
	}
	// C is a type to embed.
	C struct {
		*A
		Y int `json:"-"`
		W int `json:"-,"`
	}
	// D is a type to embed.
	D struct {
		B
		C
		V float64 `json:"v,string"`
	}
	// E is a type to embed.
	E struct {
		*E
		X *int `json:"x,omitzero"`
	}
	// F is a type to embed.
	F struct {
		A `json:"a"`
		B `json:"b,omitempty"`
		hidden
	}
	hidden struct {
		X, Shown int
	}
	// G is a type to embed.
	G int
	// H is a type to embed.
	H struct {
		*B
		Y map[string]int `json:"Y,omitempty"`
	}
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
	tagOptions = []string{
		"", "", ",omitempty", ",omitzero", ",string", ",", ",inline", ",string,omitempty", ",omitempty,omitzero",
	}
	fieldNames = []string{"X", "Y", "Z", "W", "Field", "unexported"}
)

// Struct draws a struct type with fields of many kinds, tags and depths.
func Struct(t *rapid.T, depth int) reflect.Type {
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
				f.Type = Struct(t, depth-1)
				break
			}
			fallthrough
		default:
			f.Type = rapid.SampledFrom(plainTypes).Draw(t, "type")
		}
		if f.Name == "unexported" {
			f.PkgPath = "github.com/pintle-go/pintle/internal/jsonfields/drawn"
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

// Fill sets a value to a random one, which is often empty.
func Fill(t *rapid.T, v reflect.Value, depth int) {
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
		v.Set(
			reflect.ValueOf(rapid.SampledFrom([]any{1.5, "s", true, []any{"x", nil}, map[string]any{"k": "v"}}).Draw(t, "any")),
		)
	case reflect.Pointer:
		if depth > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			Fill(t, v.Elem(), depth-1)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), rapid.IntRange(0, 3).Draw(t, "length"), 3))
		for i := range v.Len() {
			Fill(t, v.Index(i), depth-1)
		}
	case reflect.Array:
		for i := range v.Len() {
			Fill(t, v.Index(i), depth-1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for _, key := range []string{"a", "b"}[:rapid.IntRange(0, 2).Draw(t, "entries")] {
			value := reflect.New(v.Type().Elem()).Elem()
			Fill(t, value, depth-1)
			v.SetMapIndex(reflect.ValueOf(key), value)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			Fill(t, v.Field(i), depth-1)
		}
	}
}
