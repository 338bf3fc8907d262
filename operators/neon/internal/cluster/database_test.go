package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestDatabase runs the scripts of the managed database with programs that, as those of upstream's
// image, find their libraries only where they are told.
func TestDatabase(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	data, log := filepath.Join(root, "data"), filepath.Join(root, "log")
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // programs run there
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil { //nolint:gosec // it is a program
			t.Fatal(err)
		}
	}
	for _, version := range []string{"v16", "v17"} {
		for name, does := range map[string]string{
			"initdb": `mkdir "$2"; echo 17 >"$2/PG_VERSION"; touch "$2/pg_hba.conf"`, "postgres": "", "pg_ctl": "",
		} {
			write(filepath.Join(root, version, "bin", name), fmt.Sprintf(`#!/bin/sh
if [ "$LD_LIBRARY_PATH" != %s/%s/lib ]; then
  echo "$0: error while loading shared libraries: libpq.so.5" >&2
  exit 127
fi
echo %[2]s/%s >>%s
case "$*" in *shared_preload_libraries=neon_rmgr*) echo replays >>%[4]s ;; esac
%[5]s`, root, version, name, log, does))
		}
	}
	write(filepath.Join(root, "v17", "lib", "postgresql", "neon_rmgr.so"), "")
	run := func(script string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c",
			strings.NewReplacer("/usr/local", root, "/tmp/password", root+"/password").Replace(script))
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "PGDATA=" + data, "POSTGRES_PASSWORD=secret"}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	run(startDatabase)
	run(stopDatabase)
	write(filepath.Join(data, "PG_VERSION"), "16\n") // its storage had no newer one
	run(startDatabase)
	run(stopDatabase)
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	// Neon's PostgreSQL cannot recover without its resource manager. Others have none.
	want := "v17/initdb v17/postgres replays v17/pg_ctl v16/postgres v16/pg_ctl"
	if got := strings.Join(strings.Fields(string(text)), " "); got != want {
		t.Errorf("the programs that ran are %s, want %s", got, want)
	}
}

// TestDatabaseIsProbed sees that the pod of the managed database is ready only while PostgreSQL answers, also
// after it has recovered for long.
func TestDatabaseIsProbed(t *testing.T) {
	t.Parallel()
	main := database(sample()).template().Spec.Containers[0]
	if p := main.ReadinessProbe; p == nil || p.Exec == nil || !strings.Contains(strings.Join(p.Exec.Command, " "), "pg_isready") {
		t.Errorf("the readiness probe is %+v", p)
	}
	if main.LivenessProbe != nil || main.StartupProbe != nil {
		t.Error("a probe can end a PostgreSQL that recovers")
	}
}
