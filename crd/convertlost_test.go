package crd_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
)

// Bell has a list and a map that it requires, and that BellV1 lacks.
type Bell struct {
	kube.Object
	Spec struct {
		Tone  string            `json:"tone"`
		Hours []string          `json:"hours"`
		Texts map[string]string `json:"texts"`
		Zone  string            `json:"zone,omitempty"`
	} `json:"spec"`
}

func (Bell) GVK() kube.GVK { return kube.GVK{Group: "example.com", Version: "v2", Kind: "Bell"} }

type BellV1 struct {
	kube.Object
	Spec struct {
		Tone string `json:"tone"`
	} `json:"spec"`
}

func (BellV1) GVK() kube.GVK { return kube.GVK{Group: "example.com", Version: "v1", Kind: "Bell"} }

// bells cannot store the tone "h".
func bells() *crd.Definition {
	return crd.Join(crd.Of[Bell](crd.Options{}), crd.Converts(crd.Of[BellV1](crd.Options{}),
		func(from *BellV1, to *Bell) error {
			if to.Spec.Tone = from.Spec.Tone; from.Spec.Tone == "h" {
				return errors.New("no such tone")
			}
			return nil
		}, func(from *Bell, to *BellV1) error {
			to.Spec.Tone = from.Spec.Tone
			return nil
		}))
}

func bell(version, annotations, spec string) string {
	return `{"apiVersion":"example.com/` + version + `","kind":"Bell","metadata":{"name":"a"` + annotations + `},"spec":` + spec + `}`
}

// The server drops a null, and then refuses every write of the object in the storage version, because
// a required field is missing.
func TestConvertNilLists(t *testing.T) {
	got := converted(t, bells(), bell("v1", "", `{"tone":"c"}`), "v2")
	if want := bell("v2", "", `{"tone":"c","hours":[],"texts":{}}`); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got = converted(t, bells(), got, "v1"); strings.Contains(got, "kept") {
		t.Errorf("there is nothing to keep: %s", got)
	}
}

// An object that cannot be converted back can be read in the other version, but not written: nobody
// knows what that would lose.
func TestConvertNotBack(t *testing.T) {
	full := bell("v2", "", `{"tone":"h","hours":["1"],"texts":{},"zone":"UTC"}`)
	read := converted(t, bells(), full, "v1")
	written := strings.Replace(read, `"tone":"h"`, `"tone":"c"`, 1)
	if got, err := bells().Convert([]byte(written), "v2"); err == nil ||
		!strings.Contains(err.Error(), "write the object in v2") {
		t.Errorf("%s\nwritten as %s %v", read, got, err)
	}
}
