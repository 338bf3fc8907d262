package optest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/internal/program"
)

// requireVariable, set to 1, requires that this machine can run a real node: a test fails
// in place of being skipped.
const requireVariable = "PINTLE_REQUIRE_REAL_NODE"

// RealNode is a private cluster with a real node, which runs containers.
type RealNode struct {
	Client     *kube.Client
	Kubeconfig string
	command    string
	dir        string
}

// StartRealNode starts such a cluster, or skips the test on a machine that cannot run
// one.
func StartRealNode(t testing.TB) *RealNode {
	t.Helper()
	lockRealNode(t)
	dir := t.TempDir()
	c := &RealNode{command: filepath.Join(dir, "cluster"), dir: filepath.Join(dir, "state")}
	c.Kubeconfig = filepath.Join(c.dir, "kubeconfig")
	Go(t, "build", "-o", c.command, "github.com/pintle-go/pintle/cluster")
	t.Cleanup(func() {
		if said, code := c.run(t, "down", "--delete"); code != 0 {
			t.Errorf("down: %s", said)
		}
	})
	said, code := c.run(t, "up", "--node=real", "--ephemeral", "--owner="+strconv.Itoa(os.Getpid()))
	if code != 0 && os.Getenv(requireVariable) != "1" {
		t.Skip(said)
	} else if code != 0 {
		t.Fatal(said)
	}
	client, err := kube.Config{Kubeconfig: c.Kubeconfig, FieldManager: "test"}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	c.Client = client
	return c
}

// lockRealNode waits until no other test runs a real node. Tests of the node itself
// compare the machine before and after; they take the same lock.
func lockRealNode(t testing.TB) {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(os.TempDir(), "pintle-real-node.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() }) // and releases the lock
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
}

// Load loads the image in an archive into the node.
func (c *RealNode) Load(t testing.TB, archive string) {
	t.Helper()
	if said, code := c.run(t, "load", archive); code != 0 {
		t.Fatalf("load: %s", said)
	}
}

// RestartKubelet kills the kubelet of the node, and starts another one.
func (c *RealNode) RestartKubelet(t testing.TB) {
	t.Helper()
	if said, code := c.run(t, "restart", "kubelet"); code != 0 {
		t.Fatalf("restart kubelet: %s", said)
	}
}

// run runs the cluster command.
func (c *RealNode) run(t testing.TB, args ...string) (said string, code int) {
	t.Helper()
	p, err := program.Start(program.Spec{Path: c.command, Args: append([]string{"--dir=" + c.dir}, args...)})
	if err != nil {
		t.Fatal(err)
	}
	// t.Context() has ended when the cluster ends.
	if code, err = p.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	lines, _ := p.Lines()
	return strings.Join(lines, "\n"), code
}

// Go runs the go command.
func Go(t testing.TB, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", args[0], err, out)
	}
}
