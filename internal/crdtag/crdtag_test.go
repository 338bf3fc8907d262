package crdtag_test

import (
	"reflect"
	"testing"

	"github.com/pintle-go/pintle/internal/crdtag"
)

func TestOptional(t *testing.T) {
	for tag, want := range map[reflect.StructTag]bool{
		`json:"a"`:                                   false,
		`crd:"minItems=1,optional"`:                  true,
		`crd:"default='[\"a\"]',minItems=1"`:         true,
		`crd:"pattern='^a,optional$'"`:               false,
		`crd:"items.optional"`:                       false,
		`crd:"optionalOldSelf,description=optional"`: false,
	} {
		if got := crdtag.Optional(tag); got != want {
			t.Errorf("%s: got %v, want %v", tag, got, want)
		}
	}
}
