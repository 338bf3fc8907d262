package intent

import (
	"encoding"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/internal/jsonfields"
)

func encodeBool(s *state, v reflect.Value) error {
	s.buf = strconv.AppendBool(s.buf, v.Bool())
	return nil
}

func encodeInt(s *state, v reflect.Value) error {
	s.buf = strconv.AppendInt(s.buf, v.Int(), 10)
	return nil
}

func encodeUint(s *state, v reflect.Value) error {
	s.buf = strconv.AppendUint(s.buf, v.Uint(), 10)
	return nil
}

func encodeFloat32(s *state, v reflect.Value) error { return appendFloat(s, v.Float(), 32) }
func encodeFloat64(s *state, v reflect.Value) error { return appendFloat(s, v.Float(), 64) }

// appendFloat writes f as encoding/json and ECMAScript do: the shortest digits
// that read back the same, in scientific form outside of 1e-6 to 1e21.
func appendFloat(s *state, f float64, bits int) error {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return fmt.Errorf("%v has no JSON form", f)
	}
	format, abs := byte('f'), math.Abs(f)
	if abs != 0 && (bits == 64 && (abs < 1e-6 || abs >= 1e21) ||
		bits == 32 && (float32(abs) < 1e-6 || float32(abs) >= 1e21)) {
		format = 'e'
	}
	s.buf = strconv.AppendFloat(s.buf, f, format, -1, bits)
	if n := len(s.buf); format == 'e' && n >= 4 && s.buf[n-4] == 'e' && s.buf[n-2] == '0' && s.buf[n-3] == '-' {
		s.buf[n-2] = s.buf[n-1] // e-09 becomes e-9
		s.buf = s.buf[:n-1]
	}
	return nil
}

func encodeString(s *state, v reflect.Value) error { return appendString(s, v.String()) }

var errUTF8 = errors.New("is not valid UTF-8: JSON cannot hold it, a []byte field can")

func appendString(s *state, text string) error {
	if !utf8.ValidString(text) {
		return errUTF8
	}
	var err error
	s.buf, err = jsontext.AppendQuote(s.buf, text)
	return err
}

func encodeNumber(s *state, v reflect.Value) error {
	text := v.String()
	if text == "" {
		text = "0" // as in encoding/json
	}
	if value := jsontext.Value(text); value.Kind() != '0' || !value.IsValid() || text[len(text)-1] <= ' ' {
		return fmt.Errorf("%q is not a JSON number", text)
	}
	s.buf = append(s.buf, text...)
	return nil
}

func encodeBytes(s *state, v reflect.Value) error {
	s.buf = append(s.buf, '"')
	s.buf = base64.StdEncoding.AppendEncode(s.buf, v.Bytes())
	s.buf = append(s.buf, '"')
	return nil
}

// quotedEncoder returns an encoder for the string option of a field's tag.
func (c *compiler) quotedEncoder(t reflect.Type, encode encodeFunc) encodeFunc {
	base := t
	if base.Kind() == reflect.Pointer {
		base = base.Elem()
	}
	if jsonfields.Encodes(base) {
		return encode
	}
	return func(s *state, v reflect.Value) error {
		start := len(s.buf)
		if err := encode(s, v); err != nil {
			return err
		}
		text := string(s.buf[start:])
		s.buf = s.buf[:start]
		return appendString(s, text)
	}
}

func encodeMarshaler(s *state, v reflect.Value) error {
	m, ok := receiver(v).(json.Marshaler)
	if !ok {
		return fmt.Errorf("%s has no MarshalJSON", v.Type())
	}
	text, err := m.MarshalJSON()
	if err != nil {
		return err
	}
	s.buf, err = jsontext.AppendFormat(s.buf, text, jsontext.PreserveRawStrings(true))
	if err != nil {
		return fmt.Errorf("MarshalJSON of %s: %w", v.Type(), err)
	}
	return nil
}

// encodeTime does what encodeMarshaler does, without a copy and a check of the text: a status
// may have hundreds of times.
func encodeTime(s *state, v reflect.Value) error {
	t := receiver(v).(*metav1.Time)
	if t.IsZero() {
		s.buf = append(s.buf, "null"...)
		return nil
	}
	s.buf = append(t.UTC().AppendFormat(append(s.buf, '"'), time.RFC3339), '"')
	return nil
}

func encodeText(s *state, v reflect.Value) error {
	m, ok := receiver(v).(encoding.TextMarshaler)
	if !ok {
		return fmt.Errorf("%s has no MarshalText", v.Type())
	}
	text, err := m.MarshalText()
	if err != nil {
		return err
	}
	return appendString(s, string(text))
}

// receiver returns a value that has the methods of both pointer and value receivers.
func receiver(v reflect.Value) any { return v.Addr().Interface() }

func structEncoder(members []memberFunc) encodeFunc {
	return func(s *state, v reflect.Value) error {
		s.buf = append(s.buf, '{')
		for _, m := range members {
			if err := m(s, v); err != nil {
				return err
			}
		}
		s.buf = append(s.buf, '}')
		return nil
	}
}

func pointerEncoder(elem *node) encodeFunc {
	return func(s *state, v reflect.Value) error {
		if v.IsNil() {
			s.buf = append(s.buf, "null"...)
			return nil
		}
		if err := s.enter(); err != nil {
			return err
		}
		err := elem.encode(s, v.Elem())
		s.leave()
		return err
	}
}

func listEncoder(elem *node) encodeFunc {
	return func(s *state, v reflect.Value) error {
		if err := s.enter(); err != nil {
			return err
		}
		s.buf = append(s.buf, '[')
		for i := range v.Len() {
			if i > 0 {
				s.buf = append(s.buf, ',')
			}
			if err := elem.encode(s, v.Index(i)); err != nil {
				return atIndex(i, err)
			}
		}
		s.buf = append(s.buf, ']')
		s.leave()
		return nil
	}
}

// encodeInterface encodes the value in an interface. Nulls are kept here: an any is
// free-form.
func encodeInterface(s *state, v reflect.Value) error {
	if v.IsNil() {
		s.buf = append(s.buf, "null"...)
		return nil
	}
	v = v.Elem()
	if nilable(v.Kind()) && v.IsNil() {
		s.buf = append(s.buf, "null"...)
		return nil
	}
	encode, err := s.enc.encoderOf(v.Type())
	if err != nil {
		return err
	}
	if err := s.enter(); err != nil {
		return err
	}
	err = encode(s, addressable(v))
	s.leave()
	return err
}

// encoderOf returns the encoder of a type that is first seen in an interface.
func (e *Encoder) encoderOf(t reflect.Type) (encodeFunc, error) {
	if known, ok := e.dynamic.Load(t); ok {
		return known.(encodeFunc), nil
	}
	c := compiler{nodes: map[reflect.Type]*node{}}
	n, err := c.node(t)
	if err != nil {
		return nil, err
	}
	known, _ := e.dynamic.LoadOrStore(t, n.encode)
	return known.(encodeFunc), nil
}
