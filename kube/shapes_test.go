package kube

import (
	"errors"
	"strings"
	"testing"
)

type speaker interface{ Speak() }

type mute struct {
	Object
	Spec struct {
		Voice speaker `json:"voice"`
	} `json:"spec"`
}

func (mute) GVK() GVK { return GVK{Group: "example.com", Version: "v1", Kind: "Mute"} }

// A handle of a type that cannot be read back returns an error before any request.
func TestUnreadableType(t *testing.T) {
	s := newAPIServer()
	_, err := For[mute](s.client(t)).In("default").Get(t.Context(), "a")
	if !errors.Is(err, ErrKind) ||
		!strings.Contains(err.Error(), "the value in interface kube.speaker cannot be read back") {
		t.Errorf("got %v", err)
	}
	if paths := s.paths(); len(paths) > 0 {
		t.Errorf("requests: %q", paths)
	}
}
