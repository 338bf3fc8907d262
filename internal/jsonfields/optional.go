package jsonfields

import (
	"errors"
	"reflect"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pintle-go/pintle/internal/crdtag"
)

// leavingOut returns struct type t with other tags, by which encoding/json leaves out the nil lists and
// maps that a definition does not require. It returns nil if t has no such field, and for a t that
// embeds structs: such types cannot be made.
func leavingOut(t reflect.Type) reflect.Type {
	if t.Kind() != reflect.Struct || Encodes(t) {
		return nil
	}
	var fields []reflect.StructField
	found := false
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			return nil
		}
		list := f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() != reflect.Uint8
		asked := reflect.PointerTo(f.Type).Implements(reflect.TypeFor[interface{ IsZero() bool }]()) // by omitzero
		tag := f.Tag.Get("json")
		if (list || f.Type.Kind() == reflect.Map) && !asked && tag != "-" && crdtag.Optional(f.Tag) {
			found = true
			f.Tag = reflect.StructTag("json:" + strconv.Quote(tag+",omitzero"))
		}
		fields = append(fields, f)
	}
	if !found {
		return nil
	}
	return reflect.StructOf(fields)
}

// leavesOut encodes values of some types as values of other types, which differ only in tags.
func leavesOut(as map[reflect.Type]reflect.Type) *json.Marshalers {
	return json.MarshalToFunc(func(e *jsontext.Encoder, v any) error {
		from := reflect.Indirect(reflect.ValueOf(v))
		if !from.IsValid() || as[from.Type()] == nil {
			return errors.ErrUnsupported
		}
		to := reflect.New(as[from.Type()])
		to.Elem().Set(from.Convert(to.Type().Elem()))
		return json.MarshalEncode(e, to.Interface())
	})
}
