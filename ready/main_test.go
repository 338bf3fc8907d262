package ready_test

import (
	"testing"

	"go.uber.org/goleak"
)

// Whatever a test starts has ended when it ends.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
