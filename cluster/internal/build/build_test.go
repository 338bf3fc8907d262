package build

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pintle-go/pintle/cluster/internal/process"
	"github.com/pintle-go/pintle/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Run(m)) }

func TestVersion(t *testing.T) {
	goMod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version, err := Builder{GoMod: goMod}.Version()
	if err != nil || !strings.HasPrefix(version, "v1.") {
		t.Errorf("version %q, %v", version, err)
	}
	if _, err := (Builder{}).Version(); err == nil {
		t.Error("a version was found in no go.mod")
	}
	if flags := stamp(
		"v1.36.3",
	); !strings.Contains(flags, "version.gitMajor=1 ") ||
		!strings.Contains(flags, "version.gitMinor=36 ") {
		t.Errorf("stamp: %s", flags)
	}
}

func TestKeyFollowsSources(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	key := func(goVersion string) string {
		t.Helper()
		key, err := source{dir: dir}.key(goVersion, ControlPlane.target())
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	write("go.mod", "module x")
	write("go.sum", "")
	write(ControlPlane.target()+"/main.go", "package main")
	first := key("go1.26")
	if key("go1.26") != first {
		t.Error("the key of the same sources is another")
	}
	write("up.go", "package main")
	write(ControlPlane.target()+"/main_test.go", "package main")
	if key("go1.26") != first {
		t.Error("the key depends on files that are not in the binary")
	}
	if key("go1.27") == first {
		t.Error("the key does not depend on the Go version")
	}
	write(ControlPlane.target()+"/main.go", "package main\n")
	second := key("go1.26")
	write("go.mod", "module y")
	if second == first || key("go1.26") == second {
		t.Error("the key does not depend on the sources")
	}
	if version, err := (source{version: "v0.1.0"}).key("go1.26"); err != nil || version != "v0.1.0-go1.26" {
		t.Errorf("key of a version: %q %v", version, err)
	}
}

// A binary that was built with -trimpath finds its sources if it runs in a checkout.
func TestCheckoutOfTrimmedBinary(t *testing.T) {
	const trimmed = module + "/internal/build/source.go"
	want, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if dir, err := findCheckout(t.Context(), trimmed); err != nil || dir != want {
		t.Errorf("in the checkout: %q, %v; want %q", dir, err, want)
	}
	t.Chdir(t.TempDir())
	if dir, err := findCheckout(t.Context(), trimmed); err == nil || !strings.Contains(err.Error(), "-trimpath") {
		t.Errorf("elsewhere: %q, %v", dir, err)
	}
	if dir, err := findCheckout(t.Context(), filepath.Join(want, "internal/build/source.go")); err != nil || dir != want {
		t.Errorf("elsewhere, of a binary that was not trimmed: %q, %v", dir, err)
	}
}

func TestProgress(t *testing.T) {
	p := &progress{title: "building", target: ControlPlane.target()}
	look := func(output, want string) {
		t.Helper()
		if _, err := p.Write([]byte(output)); err != nil {
			t.Fatal(err)
		}
		if got := p.text(time.Second); got != want {
			t.Errorf("after %q: %q, want %q", output, got, want)
		}
	}
	look("", "building: 1s") // of an image
	p.looking()
	look("", "building: looking for packages to compile, 1s")
	look("go: downloading k8s.io/api v0.36.3\ngo: downloading k8s.io/kubern", "building: 1 modules downloaded, 1s")
	look("etes v1.36.3\ninternal/abi\nmkdir -p $WORK/b040/\ncat >x << 'EOF' # internal\nimport config\nEOF\n",
		"building: 2 modules downloaded, 1s")
	look("k8s.io/api/core/v1\n"+module+"/"+ControlPlane.target()+"\n", "building: 2 modules downloaded, 1s")
	p.compiling()
	look("", "building: compiling package 0 of 3, 1s")
	look("internal/abi\nk8s.io/api/core/v1\n", "building: compiling package 2 of 3, 1s")
	const complaint = "# k8s.io/api/core/v1\n../types.go:12:3: undefined: x"
	look(complaint+"\n", "building: compiling package 2 of 3, 1s")
	look(module+"/"+ControlPlane.target()+"\n", "building: linking, 1s")
	if got := p.errors(); got != complaint {
		t.Errorf("errors: %q, want %q", got, complaint)
	}
}

// The Go command lists before a build the packages that it then compiles.
func TestCount(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"go.mod":                           "module " + module + "\n\ngo 1.26\n",
		"own/own.go":                       "package own\n\nconst Path = `" + dir + "`\n",
		ControlPlane.target() + "/main.go": "package main\n\nimport _ \"" + module + "/own\"\n\nfunc main() {}\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p := newProgress(io.Discard, "building", ControlPlane.target())
	defer p.close()
	build := func(flags ...string) {
		t.Helper()
		cmd := source{dir: dir}.build(t.Context(), ControlPlane, t.TempDir(), flags)
		cmd.Stderr = p
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v\n%s", err, p.errors())
		}
	}
	p.looking()
	build("-n")
	p.compiling()
	build()
	// Two packages are new. Of the standard library any number is.
	if p.total < 2 || p.packages != p.total {
		t.Errorf("%d packages were compiled of %d", p.packages, p.total)
	}
}

// A failed build returns the compiler's errors, and leaves no files.
func TestBuildFails(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
	for name, content := range map[string]string{
		"go.mod":                           "module " + module + "\n\ngo 1.26\n\nrequire k8s.io/kubernetes v1.36.3\n",
		ControlPlane.target() + "/main.go": "package main\n\nfunc main() { undefinedThing() }\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOFLAGS", "-mod=vendor") // must not matter
	var output bytes.Buffer
	b := Builder{GoMod: []byte("require k8s.io/kubernetes v1.36.3"), Output: &output}
	err := b.build(
		t.Context(), ControlPlane, place{source: source{dir: dir}, cache: cache, path: filepath.Join(cache, "key", "kubernetes")},
	)
	if err == nil || !strings.Contains(err.Error(), "undefinedThing") {
		t.Errorf("build: %v", err)
	}
	if !strings.Contains(output.String(), "building Kubernetes v1.36.3 from "+dir) {
		t.Errorf("output: %q", &output)
	}
	if left, err := os.ReadDir(cache); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// A program that a running cluster started may be started again, however old it is.
func TestRemoveUnused(t *testing.T) {
	cache := t.TempDir()
	shell, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * keepUnused)
	file := func(key string) string { return filepath.Join(cache, key, string(ControlPlane)) }
	for _, key := range []string{"running", "unused"} {
		err := errors.Join(os.Mkdir(filepath.Dir(file(key)), 0o700), os.WriteFile(file(key), shell, 0o700), //nolint:gosec // it runs
			os.Chtimes(file(key), old, old))
		if err != nil {
			t.Fatal(err)
		}
	}
	group, err := process.NewGroup(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	p, err := group.Start(process.Spec{Name: "x", Path: file("running"), Args: []string{"-c", "exit"}})
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done() // until it is started again
	removeUnused(cache)
	if _, err := os.Stat(file("running")); err != nil {
		t.Errorf("the program of a running cluster: %v", err)
	}
	if _, err := os.Stat(file("unused")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an unused program: %v", err)
	}
}

// A link is made once, replaces what has its name, and leaves nothing else.
func TestLink(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "etcd")
	if err := os.WriteFile(name, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := link("../kubernetes", name); err != nil {
			t.Fatal(err)
		}
		if target, err := os.Readlink(name); err != nil || target != "../kubernetes" {
			t.Errorf("link: %q, %v", target, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v %v", left, err)
	}
}
