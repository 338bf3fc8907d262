package owned

import (
	"encoding/json"
	"reflect"
	"testing"
)

// Set returns what was parsed, also keys of several members and names that need escapes.
func TestSet(t *testing.T) {
	for _, text := range []string{
		set, `{}`,
		`{"f:a\"b":{".":{},"k:{\"name\":\"x\\\"y\",\"port\":80}":{".":{},"f:c":{}},"v:\"é\"":{},"v:1":{},"i:0":{}}}`,
	} {
		fields, err := Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		var want map[string]any
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		if got := fields.Set(); !reflect.DeepEqual(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}
