package realnode

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pintle-go/pintle/cluster/internal/build"
	"github.com/pintle-go/pintle/cluster/internal/state"
	"github.com/pintle-go/pintle/cluster/internal/supervisor"
)

// requireVariable, set to 1, requires that this machine can run a real node: a test fails
// in place of being skipped.
const requireVariable = "PINTLE_REQUIRE_REAL_NODE"

func requireRealNode(t *testing.T) {
	t.Helper()
	err := Check()
	if err == nil {
		return
	}
	if os.Getenv(requireVariable) == "1" {
		t.Fatalf("%s=1, but %v", requireVariable, err)
	}
	t.Skip(err)
}

// A testCluster is a control plane with a real node, run by this process.
type testCluster struct {
	t           *testing.T
	dir         string
	kubectlPath string
	stop        context.CancelFunc
	ended       chan error
}

func builder(t *testing.T) build.Builder {
	t.Helper()
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	return build.Builder{GoMod: mod, Output: t.Output()}
}

// program returns the path of a program, which it builds if necessary.
func program(t *testing.T, p build.Program) string {
	t.Helper()
	path, err := builder(t).Program(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func startCluster(t *testing.T, dir string, node *Node) *testCluster {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c := &testCluster{t: t, dir: dir, kubectlPath: program(t, build.Kubectl), stop: cancel, ended: make(chan error, 1)}
	plane := program(t, build.ControlPlane)
	node.Builder = builder(t)
	ready := make(chan struct{})
	d, err := state.At(dir)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := d.Work(ctx, func() {})
	if err != nil {
		t.Fatal(err)
	}
	lock.Release()
	start := time.Now()
	go func() {
		c.ended <- supervisor.Run(ctx, supervisor.Config{
			Dir:      d,
			Settings: state.Settings{Name: "test", RealNode: true, Controllers: true},
			Binary:   plane,
			Nodes:    []supervisor.Node{node},
			Ready:    func(supervisor.Status) { close(ready) },
			Log:      slog.New(slog.NewTextHandler(t.Output(), nil)),
		})
	}()
	t.Cleanup(func() { c.end() })
	select {
	case <-ready:
		t.Logf("ready after %v", time.Since(start).Round(100*time.Millisecond))
	case err := <-c.ended:
		c.ended <- err
		t.Errorf("start cluster: %v", err)
		c.explain()
		t.FailNow()
	}
	return c
}

// end stops the cluster. It may be called more than once.
func (c *testCluster) end() {
	c.stop()
	err := <-c.ended
	if err != nil && !c.t.Failed() {
		c.t.Errorf("run cluster: %v", err)
	}
	c.ended <- nil
}

// kubectl runs kubectl and returns its output.
func (c *testCluster) kubectl(args ...string) string {
	c.t.Helper()
	out, err := c.try(args...)
	if err != nil {
		c.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (c *testCluster) command(args ...string) *exec.Cmd {
	args = append(
		[]string{
			"--kubeconfig", filepath.Join(c.dir, "kubeconfig"), "--cache-dir",
			filepath.Join(c.dir, "kubectl-cache"),
		},
		args...)
	return exec.Command(c.kubectlPath, args...)
}

func (c *testCluster) try(args ...string) (string, error) {
	out, err := c.command(args...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (c *testCluster) apply(manifest string) {
	c.t.Helper()
	cmd := c.command("apply", "-f", "-")
	cmd.Stdin = strings.NewReader(manifest)
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("kubectl apply: %v\n%s", err, out)
	}
}

// explain prints the state and logs of a failed test's cluster.
func (c *testCluster) explain() {
	if !c.t.Failed() {
		return
	}
	for _, args := range [][]string{{"get", "pods", "-A", "-o", "wide"}, {"get", "events", "-A"}} {
		out, _ := c.try(args...)
		c.t.Logf("kubectl %s:\n%s", strings.Join(args, " "), out)
	}
	for _, name := range []string{containerd, kubelet, kubeProxy} {
		data, _ := os.ReadFile(filepath.Join(c.dir, "logs", name+".log"))
		lines := bytes.Split(data, []byte("\n"))
		c.t.Logf("%s:\n%s", name, bytes.Join(lines[max(0, len(lines)-40):], []byte("\n")))
	}
}
