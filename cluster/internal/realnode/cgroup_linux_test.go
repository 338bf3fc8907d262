package realnode

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// On a machine with version 1 the tests of real nodes use version 1. The hierarchy of
// version 2 beside it can follow processes, but lacks the controllers.
func TestUnifiedControlGroups(t *testing.T) {
	if unified() {
		t.Skip("this machine has version 2: the tests of real nodes use it")
	}
	if os.Geteuid() != 0 {
		t.Skip("it needs root")
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // not unlocked: the mount ends with the thread
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			t.Error(err)
			return
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			t.Error(err)
			return
		}
		if err := unix.Mount("none", cgroupRoot, "cgroup2", 0, ""); err != nil {
			t.Logf("this kernel mounts no cgroup2: %v", err)
			return
		}
		if !unified() {
			t.Error("version 2 is not recognized")
		}
		if err := checkUnified(); err == nil || !strings.Contains(err.Error(), "no controller ") {
			t.Errorf("without controllers: %v", err)
		}
		before := handedOn(t)
		followProcess(t, nodeCgroup("test-unified"))
		for _, controller := range handedOn(t) {
			if slices.Contains(before, controller) {
				continue
			}
			if err := os.WriteFile(subtreeControl, []byte("-"+controller), 0); err != nil {
				t.Error(err)
			}
		}
	}()
	<-ended
}

const subtreeControl = cgroupRoot + "/cgroup.subtree_control"

// handedOn returns the controllers that are delegated to groups.
func handedOn(t *testing.T) []string {
	data, err := os.ReadFile(subtreeControl)
	if err != nil {
		t.Error(err)
	}
	return strings.Fields(string(data))
}

// followProcess checks that a control group holds a process until it ends.
func followProcess(t *testing.T, c cgroup) {
	if err := c.make(); err != nil {
		t.Error(err)
		return
	}
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return
	}
	waited := make(chan error, 1)
	go func() { waited <- cmd.Wait() }()
	if err := c.join(cmd.Process.Pid); err != nil {
		t.Error(err)
	}
	if pids, err := c.pids(); err != nil || !slices.Contains(pids, cmd.Process.Pid) {
		t.Errorf("processes %v, %v", pids, err)
	}
	if err := c.kill(); err != nil {
		t.Error(err)
	}
	if err := <-waited; err == nil {
		t.Error("it has ended by itself")
	}
	if err := c.remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(cgroupRoot, c.name)); !os.IsNotExist(err) {
		t.Errorf("the group is left: %v", err)
	}
}
