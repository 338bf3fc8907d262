package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestStartOfOlderControllers starts programs that know the flag for lost disks, that do not, and
// whose help fails. Each gets the flags that it takes, as the process itself.
func TestStartOfOlderControllers(t *testing.T) {
	t.Parallel()
	for help, want := range map[string]string{
		"echo '  --timelines-onto-safekeepers'; echo '  --handle-ps-local-disk-loss'": "-l a b --handle-ps-local-disk-loss",
		"echo '  --timelines-onto-safekeepers'":                                       "-l a b",
		"exit 3":                                                                      "-l a b",
	} {
		dir := t.TempDir()
		program := "#!/bin/sh\nif [ \"$1\" = --help ]; then " + help + "; exit 0; fi\nprintf '%s|' $$ \"$@\"\n"
		if err := os.WriteFile(filepath.Join(dir, "storage_controller"), []byte(program), 0o755); err != nil { //nolint:gosec // it is a program
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", startController, "storage_controller", "-l", "a b")
		cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH")}
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Split(strings.TrimSuffix(string(out), "|"), "|")
		if pid := got[0]; pid != strconv.Itoa(cmd.Process.Pid) {
			t.Errorf("process %s is started by %d, which stays", pid, cmd.Process.Pid)
		}
		if args := strings.Join(got[1:], " "); args != want {
			t.Errorf("the help is %q, the flags are %q, want %q", help, args, want)
		}
	}
}
