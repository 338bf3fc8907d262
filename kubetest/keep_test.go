package kubetest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pintle-go/pintle/kubetest"
)

const keptVariable = "KUBETEST_TEST_KEPT"

// TestKept is a run of tests for TestKeep: it prints the identity of its cluster and
// leaves a namespace behind. It runs until its standard input ends.
func TestKept(t *testing.T) {
	if os.Getenv(keptVariable) == "" {
		t.Skip("it is for TestKeep")
	}
	cluster := kubetest.Start(t, kubetest.Options{ServerOnly: true})
	var namespaces struct {
		Items []struct {
			Metadata struct{ Name, UID string }
		}
	}
	_, body := get(t, cluster.Config(), "/api/v1/namespaces")
	if err := json.Unmarshal([]byte(body), &namespaces); err != nil {
		t.Fatal(err)
	}
	found := run{Dir: filepath.Dir(cluster.Kubeconfig())}
	for _, n := range namespaces.Items {
		if n.Metadata.Name == "kube-system" {
			found.Cluster = n.Metadata.UID
		}
		if strings.HasPrefix(n.Metadata.Name, "testkept") {
			found.Left++
		}
	}
	cluster.Namespace(t) // without a controller-manager it stays
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		t.Fatal(err)
	}
	_, _ = os.Stdin.Read(make([]byte, 1)) // it ends with an error
}

// A run is a report of TestKept.
type run struct {
	Dir     string
	Cluster string // the identity of its cluster
	Left    int    // namespaces of former runs

	end  func() // in order
	kill func()
}

// begin starts a run of tests, and returns when it has its cluster.
func begin(t *testing.T, temp, keep string) run {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKept$")
	cmd.Env = append(os.Environ(), keptVariable+"=1", "TMPDIR="+temp, "KUBETEST_KEEP="+keep)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := run{
		end:  func() { _ = in.Close(); _ = cmd.Wait() },
		kill: func() { _ = cmd.Process.Kill(); _ = cmd.Wait() },
	}
	t.Cleanup(r.kill)
	if err := json.NewDecoder(out).Decode(&r); err != nil || r.Cluster == "" {
		t.Fatalf("the run does not report its cluster: %v", err)
	}
	return r
}

// A cluster is kept for the next run, also if a run is killed. Two runs at the same time
// have two clusters.
func TestKeep(t *testing.T) {
	temp, err := os.MkdirTemp("", "keep-") //nolint:usetesting // its name is short: it holds sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(temp); err != nil {
			t.Error(err)
		}
	})
	first := begin(t, temp, "10m")
	first.end()
	second := begin(t, temp, "10m")
	if second.Cluster != first.Cluster || second.Left != 0 {
		t.Errorf("the first run has %+v, the next one %+v", first, second)
	}
	third := begin(t, temp, "10m")
	if third.Cluster == second.Cluster {
		t.Errorf("two runs at the same time have the cluster in %s", third.Dir)
	}
	second.kill()
	// The last run has a short time, so the cluster ends soon after it.
	fourth := begin(t, temp, "1s")
	third.end()
	fifth := begin(t, temp, "1s")
	if fourth.Cluster != second.Cluster || fifth.Cluster != third.Cluster || fourth.Left != 0 || fifth.Left != 0 {
		t.Errorf("runs after %+v, which was killed, and %+v have %+v and %+v", second, third, fourth, fifth)
	}
	fourth.end()
	fifth.end()
	for _, r := range []run{second, third} {
		kubetest.Eventually(t, "nothing is left of "+r.Dir, func() error {
			_, err := os.Stat(r.Dir)
			if left := processes(t, r.Dir); len(left) > 0 || !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("directory: %t, processes: %q", err == nil, left)
			}
			return nil
		})
	}
}

func TestKeepVariable(t *testing.T) {
	for _, wrong := range []string{"10", "soon", "-1m"} {
		t.Setenv("KUBETEST_KEEP", wrong)
		_, err := kubetest.Open(t.Context(), kubetest.Options{})
		if err == nil || !strings.Contains(err.Error(), "KUBETEST_KEEP") || !strings.Contains(err.Error(), wrong) {
			t.Errorf("KUBETEST_KEEP=%s: %v", wrong, err)
		}
	}
}
