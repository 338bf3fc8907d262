//go:build canary

// Package broken does not compile.
package broken

import "testing"

func TestBroken(*testing.T) { undefined() }
