package kubetest_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pintle-go/pintle/kubetest"
)

const holdVariable = "KUBETEST_TEST_HOLD"

// TestHold is the process that TestKilled kills: it prints the directories of its
// clusters and hangs.
func TestHold(t *testing.T) {
	if os.Getenv(holdVariable) == "" {
		t.Skip("it is for TestKilled")
	}
	for _, private := range []bool{false, true} {
		cluster := kubetest.Start(t, kubetest.Options{ServerOnly: true, Private: private})
		fmt.Println("dir", filepath.Dir(cluster.Kubeconfig()))
	}
	fmt.Println("holding", os.Getpid())
	time.Sleep(time.Hour) // until it is killed
}

// A run of go test beside this one has clusters of its own. When it is killed, nothing of
// them remains.
func TestKilled(t *testing.T) {
	ours := kubetest.Start(t, kubetest.Options{ServerOnly: true})

	cmd := exec.Command("go", "test", "-v", "-run", "^TestHold$", "-count", "1", ".")
	cmd.Env = append(os.Environ(), holdVariable+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var dirs []string
	pid := 0
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
		if dir, ok := strings.CutPrefix(lines.Text(), "dir "); ok {
			dirs = append(dirs, dir)
		}
		_, _ = fmt.Sscanf(lines.Text(), "holding %d", &pid)
	}
	if len(dirs) != 2 || pid == 0 {
		t.Fatalf("the other run: dirs %v, test process %d, %v", dirs, pid, cmd.Wait())
	}
	for _, dir := range dirs {
		if dir == filepath.Dir(ours.Kubeconfig()) {
			t.Errorf("the other run shares %s with this one", dir)
		}
		if len(processes(t, dir)) < 2 {
			t.Errorf("no cluster runs in %s", dir)
		}
	}

	test, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*os.Process{cmd.Process, test} {
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.Copy(io.Discard, out); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // it was killed
	for _, dir := range dirs {
		kubetest.Eventually(t, "nothing of "+dir+" is left", func() error {
			_, err := os.Stat(dir)
			if left := processes(t, dir); !os.IsNotExist(err) || len(left) > 0 {
				return fmt.Errorf("directory %v, processes %q", err == nil, left)
			}
			return nil
		})
	}
	if status, body := get(t, ours.Config(), "/api/v1/namespaces"); status != 200 {
		t.Errorf("our cluster after the other run was killed: %d %s", status, body)
	}
}

// processes returns the processes whose command line contains dir.
func processes(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range files {
		if line, err := os.ReadFile(file); err == nil && strings.Contains(string(line), dir) {
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}
