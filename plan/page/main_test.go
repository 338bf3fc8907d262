package page

import (
	"testing"

	"go.uber.org/goleak"
)

// Every goroutine that a test starts ends with the test.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
