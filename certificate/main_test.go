package certificate

import (
	"testing"

	"go.uber.org/goleak"
)

// Everything that a test starts has ended when the test ends.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
