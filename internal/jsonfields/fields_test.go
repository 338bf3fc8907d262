package jsonfields_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/pintle-go/pintle/internal/jsonfields"
	"github.com/pintle-go/pintle/internal/jsonfields/drawn"
	"pgregory.net/rapid"
)

// byFields encodes a struct by the members that Of returns. encoding/json encodes their
// values.
func byFields(v reflect.Value) ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for _, f := range jsonfields.Of(v.Type()) {
		value, ok := f.Value(v)
		if !ok || f.OmitEmpty && isEmpty(value) || f.OmitZero && value.IsZero() {
			continue
		}
		// A struct of one field, whose name no other field hides.
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

// exported returns a value that may be copied, even if its field is embedded and not
// exported.
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

// The members, their order and their values equal those of encoding/json.
func TestSameAsEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		typ := drawn.Struct(t, 2)
		v := reflect.New(typ).Elem()
		drawn.Fill(t, v, 5)
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

type (
	A      = drawn.A
	hidden struct {
		X, Shown int
		unseen   int
	}
	hiddenToo struct{ T int }
	outer     struct {
		A `json:"a"`
		hidden
		*drawn.B
		*hiddenToo `json:"-"`
	}
)

// This test has embedded structs that are not exported, which reflection cannot make.
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
	for _, v := range []any{&both{hidden{1, 2, 3}, &hiddenToo{4}, A{}}, &both{}, &named{hidden{1, 2, 3}, 4},
		&outer{hidden: hidden{X: 3}}, &outer{B: &drawn.B{X: "x"}, hiddenToo: &hiddenToo{1}}} {
		want, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := byFields(reflect.ValueOf(v).Elem()); err != nil || string(got) != string(want) {
			t.Errorf("%T: got %s, %v, want %s", v, got, err, want)
		}
	}
	_ = hidden{}.unseen
	structs := jsonfields.Structs(reflect.TypeFor[drawn.D]())
	if s := fmt.Sprint(structs); strings.Count(s, "drawn.A") != 1 || len(structs) != 4 {
		t.Errorf("structs: %v", structs)
	}
}
