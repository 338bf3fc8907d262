package leak_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/pintle-go/pintle/internal/leak"
)

// The test binary also runs one of the tests that TestRun looks at.
const roleVariable = "LEAK_TEST_ROLE"

func TestMain(m *testing.M) { os.Exit(leak.Run(m)) }

func TestRun(t *testing.T) {
	for role, want := range map[string]struct {
		code       int
		leak, none bool // the text of a leak, and that of no leak
	}{
		"passes":           {0, false, false},
		"leaks":            {1, true, false},
		"fails":            {1, false, true},
		"fails, and leaks": {1, false, false},
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestRole$")
		cmd.Env = append(os.Environ(), roleVariable+"="+role)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		found, none := strings.Contains(string(out), "found unexpected goroutines"), strings.Contains(string(out), leak.None)
		if cmd.ProcessState.ExitCode() != want.code || found != want.leak || none != want.none {
			t.Errorf("a test that %s: code %d, want %d; the output is\n%s", role, cmd.ProcessState.ExitCode(), want.code, out)
		}
	}
}

func TestRole(t *testing.T) {
	role := os.Getenv(roleVariable)
	if strings.Contains(role, "leaks") {
		go func() { select {} }()
	}
	if strings.Contains(role, "fails") {
		t.Error("it fails")
	}
}
