package intent

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"sync"
)

// A Part is the part of an object that an apply request sends.
type Part uint8

const (
	// Spec is everything but the status.
	Spec Part = iota
	// Status is the status and the fields that identify the object.
	Status
)

// Options names the kind of an object and the part of it to encode.
type Options struct {
	APIVersion string // group/version, as in "apps/v1"
	Kind       string
	Part       Part
	// Custom: the kind has a definition. It requires the lists and maps that the tags of the
	// type require, and refuses null there.
	Custom bool
}

// An Encoder encodes the objects of one Go type. It may be used by several
// goroutines at a time.
type Encoder struct {
	typ    reflect.Type
	root   encodeFunc   // set if the type is no plain struct
	plain  []memberFunc // all but apiVersion, kind, metadata and status, in order
	meta   parts        // absent if the type has no metadata
	status encodeStatus // nil if the type has no status

	dynamic sync.Map // reflect.Type → encodeFunc, of values found in interfaces
	states  sync.Pool
}

// parts holds the encodings of one member, by [Part].
type parts struct{ spec, status memberFunc }

// memberFunc appends one member of an object, name and value, or appends nothing.
type memberFunc func(s *state, object reflect.Value) error

// encodeStatus appends the status member of an object even if it is zero.
type encodeStatus func(s *state, object reflect.Value) error

// state is the working state of one call of [Encoder.Object].
type state struct {
	enc    *Encoder
	buf    []byte
	depth  int
	custom bool
	// scratch is where a new buffer grows before it is cut to its size.
	scratch []byte
	keys    []entry // scratch for sorting maps; used as a stack
}

// maxScratch keeps a single large object from being remembered.
const maxScratch = 1 << 20

var errNoStatus = errors.New("the type has no status")

// For returns an encoder of the struct type t, or of the struct t points to.
// It fails if a field of the type has no JSON form.
func For(t reflect.Type) (*Encoder, error) {
	if t == nil {
		return nil, errors.New("build encoder: no type")
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	e := &Encoder{typ: t}
	e.states.New = func() any { return &state{enc: e} }
	if err := e.compile(); err != nil {
		return nil, fmt.Errorf("build encoder of %s: %w", t, err)
	}
	return e, nil
}

// Object appends the part of v that opt asks for to dst. v is a value of the encoder's
// type or, better, a pointer to one. If Object fails, it returns dst as it was.
func (e *Encoder) Object(dst []byte, v any, opt Options) ([]byte, error) {
	object, err := e.value(v)
	if err == nil && (opt.APIVersion == "" || opt.Kind == "") {
		err = errors.New("apiVersion and kind are not given")
	}
	if err != nil {
		return dst, fmt.Errorf("encode %s: %w", e.name(opt), err)
	}
	s := e.states.Get().(*state)
	s.buf, s.depth, s.custom = dst, 0, opt.Custom
	if dst == nil {
		s.buf = s.scratch[:0]
	}
	err = e.object(s, object, opt)
	out := s.buf
	if dst == nil {
		out = bytes.Clone(s.buf)
		if s.scratch = s.buf; cap(s.scratch) > maxScratch {
			s.scratch = nil
		}
	}
	s.buf = nil // the caller owns it
	clear(s.keys[:cap(s.keys)])
	s.keys = s.keys[:0]
	e.states.Put(s)
	if err != nil {
		return dst, fmt.Errorf("encode %s: %w", e.name(opt), err)
	}
	return out, nil
}

func (e *Encoder) name(opt Options) string {
	if opt.Kind != "" {
		return opt.Kind
	}
	return e.typ.String()
}

// value returns the object in v, addressable.
func (e *Encoder) value(v any) (reflect.Value, error) {
	rv := reflect.ValueOf(v)
	switch {
	case !rv.IsValid():
		return rv, errors.New("no object")
	case rv.Type() == e.typ:
		return addressable(rv), nil
	case rv.Kind() == reflect.Pointer && rv.Type().Elem() == e.typ:
		if rv.IsNil() {
			return rv, errors.New("the object is nil")
		}
		return rv.Elem(), nil
	}
	return rv, fmt.Errorf("the encoder is of %s, not of %s", e.typ, rv.Type())
}

// addressable returns v, or a copy of it, so that methods of pointer receivers
// can be called.
func addressable(v reflect.Value) reflect.Value {
	if v.CanAddr() {
		return v
	}
	box := reflect.New(v.Type()).Elem()
	box.Set(v)
	return box
}
