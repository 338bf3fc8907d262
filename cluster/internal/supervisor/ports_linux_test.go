package supervisor

import (
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// A cluster does not start where its programs cannot reach each other.
func TestLoopbackIsDown(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a network namespace")
	}
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its namespace
		if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
			t.Errorf("make network namespace: %v", err)
		}
		_, err := choosePorts(0)
		result <- err
	}()
	if err := <-result; err == nil || !strings.Contains(err.Error(), "ip link set lo up") {
		t.Errorf("%v names no remedy", err)
	}
}
