package main

import (
	"strings"
	"testing"
)

// TestRealImages: simulated nodes run no images, and the command says which target does.
func TestRealImages(t *testing.T) {
	t.Setenv("COMPUTE_IMAGE_REF", "")
	t.Setenv("NEON_IMAGE_REF", "ghcr.io/neondatabase/neon:release-9129")
	if err := neonMissing(settings{}); err == nil || !strings.Contains(err.Error(), "make neon-e2e") {
		t.Errorf("with a real image: %v", err)
	}
}
