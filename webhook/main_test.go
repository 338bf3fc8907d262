package webhook

import (
	"os"
	"testing"

	"github.com/pintle-go/pintle/internal/leak"
)

// Everything that a test starts has ended when the test ends.
func TestMain(m *testing.M) { os.Exit(leak.Run(m)) }
