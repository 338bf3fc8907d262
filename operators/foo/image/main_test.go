package main

import (
	"path/filepath"
	"testing"
)

// TestSize builds the image as it is shipped; run refuses an image that is too large.
func TestSize(t *testing.T) {
	if err := run(t.Context(), filepath.Join(t.TempDir(), "foo.tar"), ""); err != nil {
		t.Fatal(err)
	}
}

func TestTooLarge(t *testing.T) {
	if _, err := deployed(); err != nil {
		t.Error(err)
	}
}
