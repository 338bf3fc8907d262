package realnode

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/pintle-go/pintle/internal/leak"
)

// aloneVariable is set in this process and in the helper processes that it starts.
const aloneVariable = "PINTLE_TEST_ALONE"

func TestMain(m *testing.M) {
	if err := waitAlone(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(leak.Run(m))
}

// waitAlone waits until no other test runs a real node, because the tests compare the
// machine before and after a node. The operators' tests (package optest) take the same
// lock. It is released when the process ends.
func waitAlone() error {
	if os.Getenv(aloneVariable) != "" {
		return nil
	}
	file, err := os.OpenFile(filepath.Join(os.TempDir(), "pintle-real-node.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("open lock: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	lockFile = file
	return os.Setenv(aloneVariable, "1")
}

// lockFile keeps the file open, and so the lock.
var lockFile *os.File
