package program

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestInstall plays the go command. Callers at once, and a later one, share one build.
func TestInstall(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	script := "#!/bin/sh\necho $* >> " + dir + "/builds\nmkdir -p $GOBIN\necho $* > $GOBIN/tool\n"
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte(script), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	install := func() {
		file, err := Install(t.Context(), "example.com/a/tool@v1.2.3")
		if err != nil {
			t.Error(err)
		} else if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	}
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(install)
	}
	callers.Wait()
	install()
	builds, err := os.ReadFile(filepath.Join(dir, "builds"))
	if want := "install -trimpath example.com/a/tool@v1.2.3\n"; err != nil || string(builds) != want {
		t.Errorf("the go command ran %d times: %q, %v; want %q", strings.Count(string(builds), "\n"), builds, err, want)
	}
}
