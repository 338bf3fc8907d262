package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

func TestSlowestFirst(t *testing.T) {
	got := slowestFirst([]string{prefix + "/api", prefix + "/kube", "./...", prefix + "/cluster"})
	want := []string{prefix + "/cluster", prefix + "/kube", prefix + "/api", "./..."}
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

// threeModules returns a batch for each of three modules, which lie one in the other.
func threeModules(t *testing.T, first, second, third string) []batch {
	dir := write(t, map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.26\n", "m_test.go": first,
		"a/go.mod": "module example.com/m/a\n\ngo 1.26\n", "a/m_test.go": second,
		"b/go.mod": "module example.com/m/b\n\ngo 1.26\n", "b/m_test.go": third,
	})
	var batches []batch
	for _, sub := range []string{"", "a", "b"} {
		batches = append(batches, batch{
			Dir: filepath.Join(dir, sub), Env: []string{"GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0"}, Packages: []string{"./..."},
		})
	}
	return batches
}

const (
	failingTest = "package m\n\nimport \"testing\"\n\nfunc TestIt(t *testing.T) { t.Error(\"it fails\") }\n"
	passingTest = "package m\n\nimport \"testing\"\n\nfunc TestIt(*testing.T) {}\n"
)

// The tests of a module beside the workspace run too, also if others have failed, and each
// failure is one of the whole. Packages that contain only tests are compiled too.
func TestAllModules(t *testing.T) {
	for name, test := range map[string]struct {
		first, second, third string
		failed               int
	}{
		"all pass":   {passingTest, passingTest, passingTest, 0},
		"the first":  {failingTest, passingTest, passingTest, 1},
		"two beside": {passingTest, failingTest, failingTest, 2},
	} {
		batches := threeModules(t, test.first, test.second, test.third)
		var compiled atomic.Int64
		for _, b := range batches {
			if err := b.compile(t.Context(), &compiled); err != nil {
				t.Fatal(err)
			}
		}
		if compiled.Load() < 3 {
			t.Errorf("%s: %d packages were compiled, want those of three modules", name, compiled.Load())
		}
		var out bytes.Buffer
		ok := testAll(t.Context(), batches, &out)
		r := newTestReport()
		if rest := r.addAll(out.Bytes()); len(rest) > 0 {
			t.Errorf("%s: the report ends with %q", name, rest)
		}
		v := judge(r)
		if ok != (test.failed == 0) || len(v.failed) != test.failed || v.passed != 3-test.failed {
			t.Errorf("%s: the tests passed: %v; the verdict is %+v, want %d failures", name, ok, v.outcome(), test.failed)
		}
	}
}

// A test runs again in its module.
func TestOf(t *testing.T) {
	batches := threeModules(t, passingTest, passingTest, passingTest)
	for pkg, want := range map[string]int{
		"example.com/m": 0, "example.com/m/a": 1, "example.com/m/a/x": 1, "example.com/m/b": 2, "example.com/m/bc": 0,
	} {
		if got := of(batches, pkg).Dir; got != batches[want].Dir {
			t.Errorf("%s runs in %s, want %s", pkg, got, batches[want].Dir)
		}
	}
}

func TestArguments(t *testing.T) {
	b := batch{Build: []string{"-race"}, Flags: []string{"-p=3"}, Skip: "^TestSoak", Args: []string{"-x.y=z"}}
	got := strings.Join(b.test([]string{"p"}, "TestA", "TestB"), " ")
	want := "test -json -vet=off -count=1 -race -p=3 -skip=^TestSoak|^TestA$|^TestB$ p -x.y=z"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Lines are complete, however they are written and read.
func TestLines(t *testing.T) {
	var got []string
	w := &lineWriter{line: func(line []byte) { got = append(got, string(line)) }}
	file := filepath.Join(t.TempDir(), "events")
	f, r := &follower{path: file}, newTestReport()
	f.read(r) // there is no file yet
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	for _, part := range []string{`{"Action":"start","Package":"p"}`, "\n{\"Action\":", `"pass","Package":"p"}` + "\n\n"} {
		for _, to := range []interface{ Write([]byte) (int, error) }{w, out} {
			if _, err := to.Write([]byte(part)); err != nil {
				t.Fatal(err)
			}
		}
		f.read(r)
	}
	want := []string{"{\"Action\":\"start\",\"Package\":\"p\"}\n", "{\"Action\":\"pass\",\"Package\":\"p\"}\n", "\n"}
	if !slices.Equal(got, want) || len(r.runs) != 1 || r.runs[0].result != "pass" {
		t.Errorf("the lines are %q, the report has %d runs", got, len(r.runs))
	}
}
