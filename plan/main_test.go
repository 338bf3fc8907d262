package plan

import (
	"os"
	"testing"

	"github.com/pintle-go/pintle/internal/leak"
)

// Every goroutine that a test starts ends with the test.
func TestMain(m *testing.M) { os.Exit(leak.Run(m)) }
