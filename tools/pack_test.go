package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A further tree of git worktree is packed as its own last commit has it.
func TestPackWorktree(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	git := func(args ...string) {
		t.Helper()
		who := []string{"-C", first, "-c", "user.name=a", "-c", "user.email=a@example.com"}
		if out, err := exec.Command("git", append(who, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	if err := os.Mkdir(first, 0o755); err != nil {
		t.Fatal(err)
	}
	git("init", "-q")
	for name, text := range map[string]string{
		"go.work": "go 1.26.0\nuse .\n",
		"go.mod":  "module example.com/packed\n\ngo 1.26.0\n",
		"a.go":    "package packed\n",
	} {
		if err := os.WriteFile(filepath.Join(first, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git("add", ".")
	git("commit", "-q", "-m", "begin")
	git("worktree", "add", "-q", second)
	repo, err := FindRepo(second)
	if err != nil {
		t.Fatal(err)
	}
	if err := pack(t.Context(), repo, filepath.Join(dir, "proxy")); err != nil {
		t.Fatal(err)
	}
	zip := filepath.Join(dir, "proxy", "example.com", "packed", "@v", packed+".zip")
	if info, err := os.Stat(zip); err != nil || info.Size() == 0 {
		t.Errorf("%v: %v", info, err)
	}
}
