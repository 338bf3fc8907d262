package lease

import (
	"os"
	"testing"

	"github.com/pintle-go/pintle/internal/leak"
)

// Everything that a test starts has ended when the test ends.
func TestMain(m *testing.M) {
	if os.Getenv(candidateVariable) != "" {
		os.Exit(runCandidate()) // a process of TestProcesses
	}
	os.Exit(leak.Run(m))
}
