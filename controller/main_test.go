package controller

import (
	"testing"

	"go.uber.org/goleak"
)

// Whatever a test starts has ended when it ends: no reconcile, store or timer
// stays.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
