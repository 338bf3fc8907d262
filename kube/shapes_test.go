package kube

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

type letter byte

// foreign is a type as other projects have them, with tags and kinds that
// go-json-experiment reads otherwise than encoding/json writes them.
type foreign struct {
	Object
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

func (foreign) GVK() GVK { return GVK{Group: "example.com", Version: "v1", Kind: "Foreign"} }

// What a client writes of a foreign type it can read.
func TestForeignShapes(t *testing.T) {
	c := mustCodec[foreign](t, false)
	var o foreign
	o.Name = "a"
	day := 24 * time.Hour
	o.Spec.Array, o.Spec.Letters, o.Spec.Number, o.Spec.Bool = [2]byte{1, 2}, []letter("ab"), "1.50", true
	o.Spec.List, o.Spec.Dash, o.Spec.Duration, o.Spec.Pointer = []int{1}, "d", time.Second, &day
	body, _, err := c.encode(&o)
	if err != nil {
		t.Fatal(err)
	}
	var got foreign
	if err := c.decode(typeJSON, body, &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Spec, o.Spec) {
		t.Errorf("got %+v, want %+v", got.Spec, o.Spec)
	}
}

type speaker interface{ Speak() }

type mute struct {
	Object
	Spec struct {
		Voice speaker `json:"voice"`
	} `json:"spec"`
}

func (mute) GVK() GVK { return GVK{Group: "example.com", Version: "v1", Kind: "Mute"} }

// A handle of a type that cannot be read back says so before anything is sent.
func TestUnreadableType(t *testing.T) {
	_, err := newCodec(reflect.TypeFor[mute](), Kind{GVK: mute{}.GVK()}, false)
	if !errors.Is(err, ErrKind) || !strings.Contains(err.Error(), "what interface kube.speaker holds cannot be read back") {
		t.Errorf("got %v", err)
	}
}

// BenchmarkNewCodec is what a handle of a foreign type costs.
func BenchmarkNewCodec(b *testing.B) {
	for b.Loop() {
		if _, err := newCodec(reflect.TypeFor[foreign](), Kind{GVK: foreign{}.GVK()}, false); err != nil {
			b.Fatal(err)
		}
	}
}
