package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// The tests of a module beside the workspace run too, also if others have failed, and each
// failure is one of the whole.
func TestBeside(t *testing.T) {
	const fails = "package m\n\nimport \"testing\"\n\nfunc TestIt(t *testing.T) { t.Error(\"it fails\") }\n"
	const passes = "package m\n\nimport \"testing\"\n\nfunc TestIt(*testing.T) {}\n"
	for name, test := range map[string]struct {
		first, second, third string
		failed               int
	}{
		"all pass":      {passes, passes, passes, 0},
		"the first":     {fails, passes, passes, 1},
		"one beside":    {passes, fails, passes, 1},
		"both beside":   {passes, fails, fails, 2},
		"all of them":   {fails, fails, fails, 3},
		"the last only": {passes, passes, fails, 1},
	} {
		dir := write(t, map[string]string{
			"go.mod": "module example.com/m\n\ngo 1.26\n", "m.go": "package m\n", "m_test.go": test.first,
			"a/go.mod": "module example.com/a\n\ngo 1.26\n", "a/m.go": "package m\n", "a/m_test.go": test.second,
			"b/go.mod": "module example.com/b\n\ngo 1.26\n", "b/m.go": "package m\n", "b/m_test.go": test.third,
		})
		err := runTests(t.Context(), &Repo{Dir: dir}, []string{"-beside=a", "-beside=b", "./..."})
		if (err != nil) != (test.failed > 0) || err != nil && strings.Count(err.Error(), "run go test") != test.failed {
			t.Errorf("%s: %v, want %d failures", name, err, test.failed)
		}
	}
}
