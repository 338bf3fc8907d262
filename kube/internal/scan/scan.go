// Package scan walks JSON that a decoder has already found valid, without decoding it.
// For malformed input it returns ErrJSON or nonsense within the input's bounds; it never
// panics.
package scan

import (
	"errors"

	"github.com/go-json-experiment/json/jsontext"
)

// ErrJSON is the error of input that is not JSON, or that is another kind of value.
var ErrJSON = errors.New("malformed JSON")

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skipString returns the index behind the string that starts at i.
func skipString(b []byte, i int) (int, error) {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1, nil
		}
	}
	return 0, ErrJSON
}

// skipValue returns the index behind the value that starts at i.
func skipValue(b []byte, i int) (end int, err error) {
	if i >= len(b) {
		return 0, ErrJSON
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		depth := 0
		for i < len(b) {
			switch b[i] {
			case '"':
				if i, err = skipString(b, i); err != nil {
					return 0, err
				}
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1, nil
				}
			}
			i++
		}
		return 0, ErrJSON
	}
	start := i
	for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && b[i] > ' ' {
		i++
	}
	if i == start {
		return 0, ErrJSON
	}
	return i, nil
}

// Members calls f for the members of an object, in their order.
func Members(b []byte, f func(name string, value []byte) error) error {
	return each(b, '{', '}', func(i int) (int, error) {
		if i >= len(b) || b[i] != '"' {
			return 0, ErrJSON
		}
		end, err := skipString(b, i)
		if err != nil {
			return 0, err
		}
		name := b[i:end]
		if i = skipSpace(b, end); i >= len(b) || b[i] != ':' {
			return 0, ErrJSON
		}
		i = skipSpace(b, i+1)
		if end, err = skipValue(b, i); err != nil {
			return 0, err
		}
		return end, f(Unquote(name), b[i:end])
	})
}

// Elements calls f for the elements of an array.
func Elements(b []byte, f func(value []byte) error) error {
	return each(b, '[', ']', func(i int) (int, error) {
		end, err := skipValue(b, i)
		if err != nil {
			return 0, err
		}
		return end, f(b[i:end])
	})
}

// each walks the parts between two brackets. It calls one with the index of every part.
// one returns the index behind the part.
func each(b []byte, open, shut byte, one func(i int) (int, error)) error {
	i := skipSpace(b, 0)
	if i >= len(b) || b[i] != open {
		return ErrJSON
	}
	if i = skipSpace(b, i+1); i < len(b) && b[i] == shut {
		return nil
	}
	for {
		end, err := one(i)
		if err != nil {
			return err
		}
		if i = skipSpace(b, end); i >= len(b) {
			return ErrJSON
		}
		switch b[i] {
		case ',':
			i = skipSpace(b, i+1)
		case shut:
			return nil
		default:
			return ErrJSON
		}
	}
}

// Unquote returns the value of a JSON string, or "" if b is not a JSON string.
func Unquote(b []byte) string {
	if len(b) < 2 || b[0] != '"' {
		return ""
	}
	for _, c := range b[1 : len(b)-1] {
		if c == '\\' {
			s, err := jsontext.AppendUnquote(nil, b)
			if err != nil && len(s) == 0 {
				return ""
			}
			return string(s)
		}
	}
	return string(b[1 : len(b)-1])
}
