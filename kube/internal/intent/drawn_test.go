package intent

import (
	stdjson "encoding/json"
	"reflect"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/pintle-go/pintle/internal/jsonfields"
	"github.com/pintle-go/pintle/internal/jsonfields/drawn"
	"pgregory.net/rapid"
)

// If an intent of any type can be read back, both readers read it alike. Encoded again,
// it is the same.
func TestIntentsAreRead(t *testing.T) {
	encoded := 0
	rapid.Check(t, func(t *rapid.T) {
		typ := drawn.Struct(t, 2)
		if jsonfields.Check(typ) != nil {
			return
		}
		e, err := For(typ)
		if err != nil {
			t.Fatal(err)
		}
		v := reflect.New(typ)
		drawn.Fill(t, v.Elem(), 5)
		text, err := e.Object(nil, v.Interface(), thingOptions)
		if err != nil {
			t.Fatalf("%s: %v", typ, err)
		}
		ours, theirs := reflect.New(typ), reflect.New(typ)
		if err := json.Unmarshal(text, ours.Interface(), jsonfields.ReadOptions(typ)); err != nil {
			t.Fatalf("%s: read %s: %v", typ, text, err)
		}
		if err := stdjson.Unmarshal(text, theirs.Interface()); err != nil {
			t.Fatalf("%s: encoding/json reads %s: %v", typ, text, err)
		}
		if !reflect.DeepEqual(ours.Interface(), theirs.Interface()) {
			t.Fatalf("%s: %s is read as\n%+v, by encoding/json as\n%+v", typ, text, ours, theirs)
		}
		again, err := e.Object(nil, ours.Interface(), thingOptions)
		if err != nil || string(again) != string(text) {
			t.Fatalf("%s: got %s again, %v, want %s", typ, again, err, text)
		}
		encoded++
	})
	t.Logf("%d types were encoded", encoded)
}
