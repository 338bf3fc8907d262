package wire

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

type letter byte

// foreign is a type as other projects have them, with tags and kinds that
// go-json-experiment reads in another way than encoding/json writes them.
type foreign struct {
	Base
	Spec struct {
		Array    [2]byte        `json:"array"`
		Letters  []letter       `json:"letters"`
		Number   json.Number    `json:"number"`
		Bool     bool           `json:"bool,string"`
		List     []int          `json:"list,string"`
		Dash     string         `json:"-,"`
		Duration time.Duration  `json:"duration"`
		Pointer  *time.Duration `json:"pointer,omitempty"`
	} `json:"spec"`
}

// An object of a foreign type that was encoded can be decoded.
func TestForeignShapes(t *testing.T) {
	c := mustCodec[foreign](t, false)
	var o foreign
	o.Name = "a"
	day := 24 * time.Hour
	o.Spec.Array, o.Spec.Letters, o.Spec.Number, o.Spec.Bool = [2]byte{1, 2}, []letter("ab"), "1.50", true
	o.Spec.List, o.Spec.Dash, o.Spec.Duration, o.Spec.Pointer = []int{1}, "d", time.Second, &day
	body, _, err := c.Encode(&o)
	if err != nil {
		t.Fatal(err)
	}
	var got foreign
	if err := c.Decode(Raw{Bytes: body}, &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Spec, o.Spec) {
		t.Errorf("got %+v, want %+v", got.Spec, o.Spec)
	}
}

type speaker interface{ Speak() }

type mute struct {
	Base
	Spec struct {
		Voice speaker `json:"voice"`
	} `json:"spec"`
}

// There is no codec for a type that cannot be read back.
func TestUnreadableType(t *testing.T) {
	_, err := NewCodec(reflect.TypeFor[mute](), Options{})
	if err == nil || !strings.Contains(err.Error(), "the value in interface wire.speaker cannot be read back") {
		t.Errorf("got %v", err)
	}
}

// BenchmarkNewCodec measures the cost of a handle of a foreign type.
func BenchmarkNewCodec(b *testing.B) {
	for b.Loop() {
		if _, err := NewCodec(reflect.TypeFor[foreign](), Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

// hidden decodes itself, by the method of go-json-experiment alone.
type hidden struct{ text string }

func (h *hidden) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	value, err := d.ReadValue()
	h.text = string(value)
	return err
}

// A type that decodes itself by UnmarshalJSONFrom is given all members.
func TestKeepForUnmarshalJSONFrom(t *testing.T) {
	keep := keepJSON(reflect.TypeFor[struct {
		Spec hidden `json:"spec"`
	}](), make(map[reflect.Type]*jsonKeep))
	const object = `{"spec":{"a":1,"b":{"c":2}}}`
	kept, err := keep.append(nil, []byte(object))
	if err != nil || string(kept) != object {
		t.Errorf("kept %s of %s: %v", kept, object, err)
	}
}
