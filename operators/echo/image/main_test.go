package main

import (
	"testing"

	"github.com/pintle-go/pintle/operators/internal/ship"
)

// TestSize builds what is shipped. An image that is too large is an error.
func TestSize(t *testing.T) {
	if err := ship.BuildAll(t.Context(), t.TempDir(), t.Output(), images...); err != nil {
		t.Fatal(err)
	}
}
