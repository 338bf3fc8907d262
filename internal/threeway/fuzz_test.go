package threeway

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
)

// fuzzed is a type with one field of each sort.
type fuzzed struct {
	A int64            `json:"a,omitempty"`
	B *fuzzed          `json:"b,omitempty"`
	L []fuzzed         `json:"l"`
	M map[string]small `json:"m,omitempty"`
	S small            `json:"s,omitzero"`
	X any              `json:"x,omitempty"`
}

type small struct {
	Name string   `json:"name,omitempty"`
	R    []string `json:"r,omitempty"`
}

// FuzzPatch takes the JSON of any two objects. A type reads the first object, and a
// change turns that into the second one.
func FuzzPatch(f *testing.F) {
	for _, seed := range [][2]string{
		{`{}`, `{"a":1}`},
		{`{"a":9007199254740993,"u":1.50}`, `{"b":{"l":[{"a":1}]}}`},
		{`{"l":[{"a":1,"u":1},{"a":2,"u":2}]}`, `{"l":[{"a":2},{"a":1},{"a":3}]}`},
		{`{"l":[{"a":1,"u":1},{"a":1,"u":2}]}`, `{"l":[{"a":1}]}`},
		{`{"m":{"k":{"name":"n","u":1},"":{}},"s":{"u":{}}}`, `{"m":{"/~":{"r":["a"]}},"s":{"name":"x"}}`},
		{`{"x":[{"a":null},[1,null]],"b":{"u":1}}`, `{"x":{"y":null,"z":[{"a":null}]}}`},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, raw, other []byte) {
		before, after, ok := shown(raw, other)
		if !ok {
			return
		}
		patch, err := Patch(raw, before, after, projectFuzzed)
		if errors.Is(err, ErrAmbiguous) || errors.Is(err, ErrInexpressible) {
			return
		}
		if err != nil {
			t.Fatalf("%v\nraw    %s\nbefore %s\nafter  %s", err, raw, before, after)
		}
		if patch == nil {
			patch = []byte(`{}`)
		}
		next, err := json.Marshal(mergePatch(decodeJSON(t, raw), decodeJSON(t, patch)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := projectFuzzed(next)
		if err != nil {
			t.Fatal(err)
		}
		if after, err = projectFuzzed(after); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(decodeJSON(t, got), decodeJSON(t, after)) {
			t.Fatalf("got    %s\nraw    %s\nbefore %s\nafter  %s\npatch  %s", got, raw, before, after, patch)
		}
	})
}

// projectFuzzed returns what the type of the fuzz tests shows of an object.
func projectFuzzed(object []byte) ([]byte, error) {
	var v fuzzed
	if err := json.Unmarshal(object, &v); err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

// shown returns what the type shows of an object and of a changed one, if both can be read.
func shown(raw, other []byte) (before, after []byte, ok bool) {
	if o, err := parse(raw); err != nil || reflect.TypeOf(o) != reflect.TypeFor[map[string]any]() {
		return nil, nil, false
	}
	before, err := projectFuzzed(raw)
	if err != nil {
		return nil, nil, false
	}
	after, err = projectFuzzed(other)
	return before, after, err == nil
}
