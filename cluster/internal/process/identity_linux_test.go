package process

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pintle-go/pintle/kubetest"
)

func init() { //nolint:gochecknoinits // the main goroutine surely has the first thread only here
	if os.Getenv(roleVariable) == "threads" {
		runtime.LockOSThread() // playThreads runs on the first thread
	}
}

// playThreads listens, and ends its first thread. The others go on.
func playThreads() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer l.Close()
	go time.Sleep(time.Hour) // until it is killed
	fmt.Println(l.Addr())
	_, _, _ = syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0) // of this thread alone
}

// TestFirstThreadHasEnded finds that a process lives, and has its port, until its last thread has ended.
func TestFirstThreadHasEnded(t *testing.T) {
	group := newGroup(t, t.TempDir())
	p, err := group.Start(spec("threads", "threads"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Kill(); <-p.Done() })
	stat := func() string {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.id.PID))
		if err != nil {
			t.Fatal(err)
		}
		return string(statFields(data)[0])
	}
	kubetest.Eventually(t, "the first thread has ended", func() error {
		if state := stat(); state != "Z" {
			return fmt.Errorf("its state is %q", state)
		}
		return nil
	})
	address := strings.TrimSpace(strings.Join(Tail(LogFile(group.dir, "threads"), 1), ""))
	if l, err := net.Listen("tcp", address); err == nil {
		l.Close()
		t.Fatal("the process does not listen")
	}
	if !p.id.Alive() {
		t.Error("a process whose threads run is taken for ended")
	}
	if _, err := End(p.id, time.Second); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatalf("the process has ended, and its port is taken: %v", err)
	}
	l.Close()
}
