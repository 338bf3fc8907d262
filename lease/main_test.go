package lease

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Everything that a test starts has ended when the test ends.
func TestMain(m *testing.M) {
	if os.Getenv(candidateVariable) != "" {
		os.Exit(runCandidate()) // a process of TestProcesses
	}
	goleak.VerifyTestMain(m)
}
