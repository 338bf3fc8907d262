package scan

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

func FuzzScan(f *testing.F) {
	f.Add([]byte(` {"a":[1,{"b":"\"]"}],"c":null} `))
	f.Add([]byte(`{"a":`))
	f.Add([]byte(`{"\u0061":1,"a":{}}`))
	lenient := json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	f.Fuzz(func(t *testing.T, b []byte) {
		var got []string
		err := Members(b, func(name string, value []byte) error {
			got = append(got, name, string(value))
			return Elements(value, func([]byte) error { return nil })
		})
		_ = err // for input that is not JSON, any error is allowed
		got = nil
		err = Members(b, func(name string, value []byte) error {
			got = append(got, name, string(value))
			return nil
		})
		Unquote(b)
		// Valid input is cut as a decoder cuts it.
		d := jsontext.NewDecoder(bytes.NewReader(b), lenient)
		if !jsontext.Value(b).IsValid(lenient) || d.PeekKind() != '{' {
			return
		}
		if err != nil {
			t.Fatalf("%q: %v", b, err)
		}
		_, _ = d.ReadToken()
		var want []string
		for d.PeekKind() != '}' {
			name, err := d.ReadToken()
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, name.String())
			value, err := d.ReadValue()
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, string(value))
		}
		if jsontext.Value(b).IsValid() && !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: got %q, want %q", b, got, want)
		}
	})
}
