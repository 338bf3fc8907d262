package main

import "testing"

// TestSize builds the image as it is shipped; run refuses one that is too large.
func TestSize(t *testing.T) {
	if err := run(t.Context(), t.TempDir(), t.Output()); err != nil {
		t.Fatal(err)
	}
}
