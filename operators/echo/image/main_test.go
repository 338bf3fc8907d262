package main

import "testing"

// TestSize builds the images as they are shipped; run refuses an image that is too large.
func TestSize(t *testing.T) {
	if err := run(t.Context(), t.TempDir(), t.Output()); err != nil {
		t.Fatal(err)
	}
}
