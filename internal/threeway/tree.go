package threeway

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// A value is nil, bool, string, number, []any or map[string]any.

// number is a JSON number as it was written: no digit is lost.
type number string

// missing is the value of an absent member.
type missing struct{}

var absent any = missing{}

// lenient accepts invalid UTF-8, which API servers are known to send.
var lenient = jsontext.AllowInvalidUTF8(true)

func parse(text []byte) (any, error) {
	d := jsontext.NewDecoder(bytes.NewReader(text), lenient)
	v, err := parseNext(d)
	if err != nil {
		return nil, err
	}
	switch _, err := d.ReadToken(); {
	case err == nil:
		return nil, errors.New("more than one JSON value")
	case !errors.Is(err, io.EOF):
		return nil, err
	}
	return v, nil
}

func parseNext(d *jsontext.Decoder) (any, error) {
	if d.PeekKind() == '0' {
		text, err := d.ReadValue()
		return number(text), err
	}
	tok, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	switch tok.Kind() {
	case 'n':
		return nil, nil
	case 't', 'f':
		return tok.Bool(), nil
	case '"':
		return tok.String(), nil
	case '[':
		list := []any{}
		for d.PeekKind() != ']' {
			v, err := parseNext(d)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := d.ReadToken()
		return list, err
	case '{':
		object := map[string]any{}
		for d.PeekKind() != '}' {
			name, err := d.ReadToken()
			if err != nil {
				return nil, err
			}
			key := name.String()
			if object[key], err = parseNext(d); err != nil {
				return nil, err
			}
		}
		_, err := d.ReadToken()
		return object, err
	}
	return nil, fmt.Errorf("unexpected %v", tok)
}

// encode returns the JSON of v, with members in the order of their names.
func encode(v any) ([]byte, error) { return appendValue(nil, v) }

func appendValue(dst []byte, v any) ([]byte, error) {
	var err error
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		if v {
			return append(dst, "true"...), nil
		}
		return append(dst, "false"...), nil
	case number:
		return append(dst, v...), nil
	case string:
		return jsontext.AppendQuote(dst, v)
	case []any:
		dst = append(dst, '[')
		for i, item := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = appendValue(dst, item); err != nil {
				return nil, err
			}
		}
		return append(dst, ']'), nil
	case map[string]any:
		dst = append(dst, '{')
		for i, name := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = jsontext.AppendQuote(dst, name); err != nil {
				return nil, err
			}
			dst = append(dst, ':')
			if dst, err = appendValue(dst, v[name]); err != nil {
				return nil, err
			}
		}
		return append(dst, '}'), nil
	}
	return nil, fmt.Errorf("encode %T: not a JSON value", v)
}

func equal(a, b any) bool {
	_, differ := firstDifference("", a, b)
	return !differ
}

// firstDifference returns the path of one difference between two values.
func firstDifference(at string, a, b any) (string, bool) {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			return at, true
		}
		for name, member := range x {
			other, ok := y[name]
			if !ok {
				other = absent
			}
			if where, differ := firstDifference(join(at, name), member, other); differ {
				return where, true
			}
		}
		for name := range y {
			if _, ok := x[name]; !ok {
				return join(at, name), true
			}
		}
		return "", false
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return at, true
		}
		for i := range x {
			if where, differ := firstDifference(item(at, i), x[i], y[i]); differ {
				return where, true
			}
		}
		return "", false
	}
	switch b.(type) {
	case map[string]any, []any:
		return at, true
	}
	return at, a != b
}
