package images

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pintle-go/pintle/operators/neon/internal/pgtest"
)

// TestComplete runs PostgreSQL in a directory that has only its own files and those that were
// added.
func TestComplete(t *testing.T) {
	bin := pgtest.Bin(t)
	if os.Geteuid() != 0 {
		t.Skip("only root may change its root directory")
	}
	root := t.TempDir()
	if err := copyFile(filepath.Join(bin, "postgres"), filepath.Join(root, "usr/local/bin/postgres")); err != nil {
		t.Fatal(err)
	}
	if err := complete(root); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "chroot", root, "/bin/sh", "-c", "/usr/local/bin/postgres --version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "postgres (PostgreSQL) ") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestEnvironment has the ways to name images.
func TestEnvironment(t *testing.T) {
	t.Setenv("NEON_IMAGE_REF", "neon:1")
	t.Setenv("COMPUTE_IMAGE_REF", "")
	t.Setenv("NEON_DIRECTORY", "")
	t.Setenv("POSTGRES_VERSION", "16")
	if _, err := Make(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "set both") {
		t.Errorf("one of two images: %v", err)
	}
	t.Setenv("COMPUTE_IMAGE_REF", "compute:1")
	s, err := Make(t.Context(), t.TempDir())
	if err != nil || s.Storage != "neon:1" || s.Compute != "compute:1" || s.PostgresVersion != "16" || len(s.Archives) > 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestDirectory makes images of a directory in upstream's layout.
func TestDirectory(t *testing.T) {
	from, dir := t.TempDir(), t.TempDir()
	for _, name := range []string{"neon/usr/local/bin/pageserver", "compute/usr/local/bin/compute_ctl"} {
		if err := copyFile("/bin/sh", filepath.Join(from, name)); err != nil {
			t.Fatal(err)
		}
	}
	const own = "somebody:x:1000:1000::/:/bin/sh\n"
	if err := os.MkdirAll(filepath.Join(from, "compute/etc"), 0o755); err != nil { //nolint:gosec // as everywhere
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(from, "compute/etc/passwd"), []byte(own), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"NEON_IMAGE_REF", "COMPUTE_IMAGE_REF", "POSTGRES_VERSION"} {
		t.Setenv(name, "")
	}
	t.Setenv("NEON_DIRECTORY", from)
	s, err := Make(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Archives) != 2 || s.Compute != "pintle.test/compute-node-v17:e2e" || s.Storage == s.Compute {
		t.Errorf("%+v", s)
	}
	for root, program := range map[string]string{"root-0": "pageserver", "root-1": "compute_ctl"} {
		if _, err := os.Stat(filepath.Join(dir, root, "usr/local/bin", program)); err != nil {
			t.Error(err)
		}
	}
	// initdb refuses an account without a name.
	for root, want := range map[string]string{"root-0": "neon:x:1000:1000:", "root-1": own} {
		text, err := os.ReadFile(filepath.Join(dir, root, "etc/passwd"))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: the accounts are %q, %v", root, text, err)
		}
	}
}
