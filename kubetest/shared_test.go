package kubetest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/pintle-go/pintle/kubetest"
)

// A shared cluster whose supervisor was killed is replaced for the next test.
func TestSharedDied(t *testing.T) {
	options := kubetest.Options{ServerOnly: true, APIServerArgs: []string{"--v=1"}} // no other test has these
	cluster := kubetest.Start(t, options)
	data, err := os.ReadFile(filepath.Join(filepath.Dir(cluster.Kubeconfig()), "cluster.json"))
	if err != nil {
		t.Fatal(err)
	}
	var record struct{ Supervisor struct{ PID int } }
	if err := json.Unmarshal(data, &record); err != nil || record.Supervisor.PID == 0 {
		t.Fatal(err, record)
	}
	if err := syscall.Kill(record.Supervisor.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	kubetest.Eventually(t, "the API server has ended", func() error {
		if status, _ := get(t, cluster.Config(), "/api/v1/namespaces"); status != 0 {
			return fmt.Errorf("it answers %d", status)
		}
		return nil
	})
	again := kubetest.Start(t, options)
	if status, body := get(t, again.Config(), "/api/v1/namespaces"); status != http.StatusOK {
		t.Errorf("the cluster of the next test: %d %s", status, body)
	}
}

// A test may end while its cluster answers nothing: what is in the cluster goes with it, and the
// cleanup does not wait for answers.
func TestPrivateEndsPaused(t *testing.T) {
	var logged logs
	t.Run("paused", func(t *testing.T) {
		logged.TB = t
		cluster := kubetest.Start(&logged, kubetest.Options{Private: true, ServerOnly: true})
		cluster.Namespace(&logged)
		if err := cluster.APIServer().Pause(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	if len(logged.lines) > 0 {
		t.Errorf("the cleanup has logged %q", logged.lines)
	}
}

// logs are the log lines of a test.
type logs struct {
	testing.TB
	lines []string
}

func (l *logs) Logf(format string, args ...any) {
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}
