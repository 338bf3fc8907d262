package lease

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Whatever a test starts has ended when it ends.
func TestMain(m *testing.M) {
	if os.Getenv(candidateVariable) != "" {
		os.Exit(runCandidate()) // a process of TestProcesses
	}
	goleak.VerifyTestMain(m)
}
