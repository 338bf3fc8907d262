package intent

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/internal/crdtag"
	"github.com/pintle-go/pintle/internal/jsonfields"
)

// encodeFunc appends the encoding of v, which is addressable, to s.buf.
type encodeFunc func(s *state, v reflect.Value) error

// node is the encoder of a type, filled in when all types below it are known:
// types may contain themselves.
type node struct{ encode encodeFunc }

type compiler struct{ nodes map[reflect.Type]*node }

var (
	marshalerType     = reflect.TypeFor[json.Marshaler]()
	textMarshalerType = reflect.TypeFor[encoding.TextMarshaler]()
	zeroerType        = reflect.TypeFor[zeroer]()
	numberType        = reflect.TypeFor[json.Number]()
	timeType          = reflect.TypeFor[metav1.Time]()
)

type zeroer interface{ IsZero() bool }

func nilable(k reflect.Kind) bool {
	return k == reflect.Pointer || k == reflect.Slice || k == reflect.Map || k == reflect.Interface
}

func (c *compiler) node(t reflect.Type) (*node, error) {
	if n, ok := c.nodes[t]; ok {
		return n, nil
	}
	n := new(node)
	c.nodes[t] = n
	encode, err := c.encoder(t)
	n.encode = encode
	return n, err
}

func (c *compiler) encoder(t reflect.Type) (encodeFunc, error) {
	if t == timeType {
		return encodeTime, nil
	}
	if jsonfields.Encodes(t) {
		if reflect.PointerTo(t).Implements(marshalerType) {
			return encodeMarshaler, nil
		}
		return encodeText, nil
	}
	switch t.Kind() {
	case reflect.Bool:
		return encodeBool, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return encodeInt, nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return encodeUint, nil
	case reflect.Float32:
		return encodeFloat32, nil
	case reflect.Float64:
		return encodeFloat64, nil
	case reflect.String:
		if t == numberType {
			return encodeNumber, nil
		}
		return encodeString, nil
	case reflect.Interface:
		return encodeInterface, nil
	case reflect.Struct:
		var members []memberFunc
		for _, f := range fieldsOf(t) {
			m, err := c.member(f)
			if err != nil {
				return nil, atMember(f.Member, err)
			}
			members = append(members, m)
		}
		return structEncoder(members), nil
	case reflect.Map:
		return c.mapEncoder(t)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 && !jsonfields.Encodes(t.Elem()) {
			return encodeBytes, nil
		}
	case reflect.Array, reflect.Pointer:
	default:
		return nil, fmt.Errorf("a %s has no JSON form", t)
	}
	elem, err := c.node(t.Elem())
	if err != nil {
		return nil, err
	}
	if t.Kind() == reflect.Pointer {
		return pointerEncoder(elem), nil
	}
	return listEncoder(elem), nil
}

// member returns the encoder of one field of a struct with its name.
func (c *compiler) member(f field) (memberFunc, error) {
	n, err := c.node(f.Type)
	if err != nil {
		return nil, err
	}
	encode := func(s *state, v reflect.Value) error { return n.encode(s, v) }
	if n.encode != nil {
		encode = n.encode
	}
	if f.Quoted {
		encode = c.quotedEncoder(f.Type, encode)
	}
	return f.with(encode), nil
}

// with returns the encoder of the field's member around that of its value.
func (f field) with(encode encodeFunc) memberFunc {
	key, err := jsontext.AppendQuote(nil, f.Member)
	if err != nil {
		return func(*state, reflect.Value) error { return atMember(f.Member, err) }
	}
	key = append(key, ':')
	var (
		absent   = f.absence()
		isTree   = f.Type.Kind() == reflect.Struct && (f.OmitEmpty || f.OmitZero)
		nullish  = f.nullAsZero()
		single   = -1
		required = f.required()
	)
	if len(f.Path) == 1 {
		single = f.Path[0]
	}
	return func(s *state, object reflect.Value) error {
		var v reflect.Value
		if single >= 0 {
			v = object.Field(single)
		} else {
			var ok bool
			if v, ok = f.Value(object); !ok {
				return nil
			}
		}
		if absent != nil && (!required || !s.custom) && absent(v) {
			return nil
		}
		start := len(s.buf)
		if start > 0 && s.buf[start-1] != '{' {
			s.buf = append(s.buf, ',')
		}
		s.buf = append(s.buf, key...)
		value := len(s.buf)
		if err := encode(s, v); err != nil {
			return atMember(f.Member, err)
		}
		switch encoded := s.buf[value:]; {
		case isTree && string(encoded) == "{}":
			s.buf = s.buf[:start]
		case nullish != nil && string(encoded) == "null" && nullish(v):
			s.buf = s.buf[:start]
		}
		return nil
	}
}

// required reports whether a definition refuses an object without the field, which is a list or a
// map. Bytes are neither, because the API server takes no empty text for bytes.
func (f field) required() bool {
	switch f.Type.Kind() {
	case reflect.Map:
	case reflect.Slice:
		if f.Type.Elem().Kind() == reflect.Uint8 {
			return false
		}
	default:
		return false
	}
	return !f.OmitEmpty && !f.OmitZero && !crdtag.Optional(f.Tag)
}

// absence returns the test for values of the field that are left out before they are
// encoded. It returns nil if no value is left out.
func (f field) absence() func(reflect.Value) bool {
	kind := f.Type.Kind()
	switch {
	case kind == reflect.Pointer && f.Type.Elem().Kind() == reflect.Pointer:
		return leadsToNil
	case kind == reflect.Pointer || kind == reflect.Interface:
		return reflect.Value.IsNil
	}
	var tests []func(reflect.Value) bool
	if kind == reflect.Slice || kind == reflect.Map {
		tests = append(tests, reflect.Value.IsNil)
	}
	if f.OmitEmpty {
		switch kind {
		case reflect.Slice, reflect.Map:
			tests = []func(reflect.Value) bool{isEmpty}
		default:
			tests = append(tests, emptyTest(f.Type))
		}
	}
	if f.OmitZero {
		tests = append(tests, zeroTest(f.Type))
	}
	switch len(tests) {
	case 0:
		return nil
	case 1:
		return tests[0]
	}
	return func(v reflect.Value) bool { return tests[0](v) || tests[1](v) }
}

func isEmpty(v reflect.Value) bool { return v.Len() == 0 }

// leadsToNil reports that a pointer is nil, or leads to a nil pointer.
func leadsToNil(v reflect.Value) bool {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return true
		}
		v = v.Elem()
	}
	return false
}

// zeroTest returns the type's own IsZero, or Go's.
func zeroTest(t reflect.Type) func(reflect.Value) bool {
	if reflect.PointerTo(t).Implements(zeroerType) {
		return func(v reflect.Value) bool { return v.Addr().Interface().(zeroer).IsZero() }
	}
	return emptyTest(t)
}

// emptyTest returns Go's test for zero values, with one exception. If a field's own tag
// leaves out an empty list or map, that field does not make the struct around it differ
// from zero: the field would be nil once sent and read.
func emptyTest(t reflect.Type) func(reflect.Value) bool {
	if t.Kind() != reflect.Struct || jsonfields.Encodes(t) {
		return reflect.Value.IsZero
	}
	fields := fieldsOf(t)
	tests := make([]func(reflect.Value) bool, len(fields))
	for i, f := range fields {
		tests[i] = emptyTest(f.Type)
		if kind := f.Type.Kind(); f.OmitEmpty && (kind == reflect.Slice || kind == reflect.Map) {
			tests[i] = isEmpty
		}
	}
	return func(v reflect.Value) bool {
		if v.IsZero() {
			return true
		}
		for i, f := range fields {
			if member, ok := f.Value(v); ok && !tests[i](member) {
				return false
			}
		}
		return true
	}
}

// nullAsZero returns a test that tells two kinds of null apart: one that stands for
// nothing and one that was meant. It returns nil if the field's type never writes null
// itself.
func (f field) nullAsZero() func(reflect.Value) bool {
	base, pointers := f.Type, 0
	for base.Kind() == reflect.Pointer {
		base, pointers = base.Elem(), pointers+1
	}
	if !jsonfields.Encodes(base) {
		return nil
	}
	isZero := zeroTest(base)
	return func(v reflect.Value) bool {
		for range pointers {
			if v.IsNil() {
				return true
			}
			v = v.Elem()
		}
		return v.IsZero() || isZero(v)
	}
}

var errDepth = errors.New("nested too deep: does the object contain itself?")

const maxDepth = 1000

func (s *state) enter() error {
	if s.depth++; s.depth > maxDepth {
		return errDepth
	}
	return nil
}

func (s *state) leave() { s.depth-- }
