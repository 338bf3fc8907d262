package jsonfields

import (
	"cmp"
	stdjson "encoding/json"
	"errors"
	"reflect"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	v1 "github.com/go-json-experiment/json/v1"
)

// encodeOptions are those of encoding/json, with which the authors of a type tested its tags, with one
// difference: a nil list is [] and a nil map is {}. A definition that requires the field refuses null.
// Nil bytes stay null, because the API server takes no empty text for bytes.
var encodeOptions = json.JoinOptions(
	v1.DefaultOptionsV1(), json.FormatNilSliceAsNull(false), json.FormatNilMapAsNull(false),
	json.WithMarshalers(encoders))

var encoders = json.JoinMarshalers(
	json.MarshalToFunc(func(e *jsontext.Encoder, n stdjson.Number) error {
		n = cmp.Or(n, "0")
		if quoted, _ := json.GetOption(e.Options(), json.StringifyNumbers); quoted {
			return e.WriteToken(jsontext.String(string(n)))
		}
		return e.WriteValue(jsontext.Value(n))
	}),
	json.MarshalToFunc(func(e *jsontext.Encoder, b []byte) error {
		if b == nil {
			return e.WriteToken(jsontext.Null)
		}
		return errors.ErrUnsupported
	}))

// namedBytesEncoders are the encoders for types that lead to bytes whose type has a name. They look at
// each value.
var namedBytesEncoders = json.JoinMarshalers(
	json.MarshalToFunc(func(e *jsontext.Encoder, v any) error {
		if b := reflect.Indirect(reflect.ValueOf(v)); b.IsValid() && isNamedBytes(b.Type()) && b.IsNil() {
			return e.WriteToken(jsontext.Null)
		}
		return errors.ErrUnsupported
	}), encoders)

func isNamedBytes(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem() == reflect.TypeFor[byte]() && t.Name() != "" && !Encodes(t)
}

var optionsByType sync.Map // json.Options by reflect.Type

func optionsOf(t reflect.Type) json.Options {
	if known, ok := optionsByType.Load(t); ok {
		return known.(json.Options)
	}
	with, leaving := encoders, make(map[reflect.Type]reflect.Type)
	for _, reached := range Reachable(t) {
		if isNamedBytes(reached) {
			with = namedBytesEncoders
		}
		if is := leavingOut(reached); is != nil {
			leaving[reached] = is
		}
	}
	if len(leaving) > 0 {
		with = json.JoinMarshalers(leavesOut(leaving), with)
	}
	options := encodeOptions
	if with != encoders {
		options = json.JoinOptions(options, json.WithMarshalers(with))
	}
	optionsByType.Store(t, options)
	return options
}

// Encode encodes an object, or a part of one. Nil lists and maps are empty ones. Those that the tag
// crd makes optional are left out.
func Encode(v any) ([]byte, error) {
	if v == nil {
		return json.Marshal(v, encodeOptions)
	}
	return json.Marshal(v, optionsOf(reflect.TypeOf(v)))
}
