package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A package that contains only tests cannot be built. The tests of the other packages
// must still run.
func TestCompilePackagesOfTestsAlone(t *testing.T) {
	dir := write(t, map[string]string{
		"go.mod":              "module example.com/m\n\ngo 1.26\n",
		"lib.go":              "package m\n",
		"check/check_test.go": "package check\n\nimport (\n\t\"testing\"\n\n\t_ \"example.com/m\"\n)\n\nfunc TestNothing(*testing.T) {}\n",
	})
	run := tester{dir: dir, env: append(os.Environ(), "GOWORK=off", "GOFLAGS=")}
	if err := run.compile(t.Context(), []string{"build"}, []string{"./..."}); err != nil {
		t.Error(err)
	}
}

func TestSlowestFirst(t *testing.T) {
	got := slowestFirst([]string{prefix + "/api", prefix + "/kube", "./...", prefix + "/cluster"})
	want := []string{prefix + "/kube", prefix + "/cluster", prefix + "/api", "./..."}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	// A package that was renamed would begin late without a word.
	repo, err := FindRepo(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, pkg := range slow {
		if _, err := os.Stat(filepath.Join(repo.Dir, pkg)); err != nil {
			t.Error(err)
		}
	}
}
