package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// testRepo makes a workspace of two modules that need each other. No module proxy has
// them.
func testRepo(t *testing.T, clusterMod string) *Repo {
	t.Helper()
	dir := write(t, map[string]string{
		"go.work":            "go 1.26.0\n\nuse (\n\t.\n\t./cluster\n)\n\nreplace " + prefix + " v0.1.0 => ./\n",
		"go.mod":             "module " + prefix + "\n\ngo 1.26.0\n",
		"kube/kube.go":       "package kube\n",
		"cluster/go.mod":     clusterMod,
		"cluster/cluster.go": "package cluster\n\nimport _ \"" + prefix + "/kube\"\n",
	})
	repo, err := FindRepo(filepath.Join(dir, "kube"))
	if err != nil {
		t.Fatal(err)
	}
	return repo
}

const clusterMod = "module " + prefix + "/cluster\n\ngo 1.26.0\n"

func TestFindRepo(t *testing.T) {
	repo := testRepo(t, clusterMod)
	if len(repo.Modules) != 2 || repo.Modules[0].Name() != "pintle" || repo.Modules[1].Path != prefix+"/cluster" ||
		repo.Modules[1].Name() != "cluster" {
		t.Errorf("got %+v", repo.Modules)
	}
	if _, err := FindRepo(t.TempDir()); err == nil {
		t.Error("a directory outside any repository: got no error")
	}
}

func TestTidy(t *testing.T) {
	const require = "\nrequire " + prefix + " v0.1.0\n"
	const sum = prefix + " v0.1.0 h1:abc=\n"

	complete := testRepo(t, clusterMod+require)
	if err := checkTidy(t.Context(), complete, nil); err != nil {
		t.Errorf("a complete go.mod: %v", err)
	}
	goSum := filepath.Join(complete.Modules[1].Dir, "go.sum")
	if err := os.WriteFile(goSum, []byte(sum), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := checkTidy(t.Context(), complete, nil); err != nil {
		t.Errorf("with the checksum of a published version: %v", err)
	}
	if err := os.WriteFile(goSum, []byte("example.com/gone v1.0.0 h1:abc=\n"+sum), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := checkTidy(t.Context(), complete, nil); !errors.Is(err, errUntidy) {
		t.Errorf("with a checksum that nothing needs: got %v, want errUntidy", err)
	}
	if err := checkTidy(t.Context(), complete, []string{"-write"}); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(goSum); err != nil || string(data) != sum {
		t.Errorf("after -write go.sum is %q, %v; want %q", data, err, sum)
	}

	more := testRepo(t, clusterMod+require+"\nrequire golang.org/x/mod v0.42.0\n")
	if err := checkTidy(t.Context(), more, nil); !errors.Is(err, errUntidy) {
		t.Errorf("a requirement too many: got %v, want errUntidy", err)
	}
	if err := checkTidy(t.Context(), more, []string{"-write"}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(more.Modules[1].Dir, "go.mod"))
	if err != nil || strings.Contains(string(data), "replace") || string(data) != clusterMod+require {
		t.Errorf("after -write go.mod is %q, %v", data, err)
	}
}

func TestRaise(t *testing.T) {
	dir := write(t, map[string]string{
		"go.mod": "module a\n\nrequire (\n\texample.com/same v1.1.0\n\texample.com/low v1.0.0\n\t" + prefix + " v0.1.0\n)\n",
	})
	edit, err := raise(filepath.Join(dir, "go.mod"), map[string]string{
		"example.com/same": "v1.1.0", "example.com/low": "v1.2.0", "example.com/other": "v1.0.0", prefix: "v0.2.0",
	})
	if want := "-require=example.com/low@v1.2.0"; err != nil || strings.Join(edit, " ") != want {
		t.Errorf("got %v, %v, want %s", edit, err, want)
	}
}
