package kube

import (
	"testing"

	"go.uber.org/goleak"
)

// Everything that a test starts has ended when the test ends: no watch, store or timer
// stays.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
