package main

import "testing"

// TestRealNode of foo builds the image by this command.
func TestNameOfTheDeployment(t *testing.T) {
	if _, err := deployed(); err != nil {
		t.Error(err)
	}
}
