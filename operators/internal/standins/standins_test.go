package standins

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestFind finds the newest PostgreSQL, and says how to get one where there is none.
func TestFind(t *testing.T) {
	t.Setenv(binVariable, "")
	dir := t.TempDir()
	if _, err := find(filepath.Join(dir, "*/bin/initdb")); !errors.Is(err, ErrNoPostgres) {
		t.Errorf("without PostgreSQL: %v", err)
	}
	for _, version := range []string{"15", "17"} {
		bin := filepath.Join(dir, version, "bin")
		if err := os.MkdirAll(bin, 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(bin, "initdb"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, err := find(filepath.Join(dir, "*/bin/initdb"))
	if err != nil || p.Bin != filepath.Join(dir, "17/bin") {
		t.Errorf("%+v, %v", p, err)
	}
}
