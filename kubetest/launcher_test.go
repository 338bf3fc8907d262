package kubetest

import (
	"archive/zip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Two proxies may have different sources for one version of the cluster command. Their
// checksums differ, and with them the places of the built commands.
func TestModuleSum(t *testing.T) {
	t.Setenv("GONOSUMDB", "*")
	sums := map[string]bool{}
	for _, source := range []string{"package main\n", "package main // changed\n"} {
		t.Setenv("GOPROXY", "file://"+proxy(t, "v0.1.0", source))
		t.Setenv("GOMODCACHE", t.TempDir())
		t.Cleanup(func() { // its files cannot be written to
			if out, err := exec.Command("go", "clean", "-modcache").CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
		sum, err := moduleSum(t.Context(), "", clusterModule, "v0.1.0")
		if err != nil || !strings.HasPrefix(sum, "h1:") {
			t.Fatalf("%q, %v", sum, err)
		}
		sums[sum] = true
	}
	if len(sums) != 2 {
		t.Errorf("different sources have the same checksum: %v", sums)
	}
	if _, err := moduleSum(t.Context(), "", clusterModule, "v0.2.0"); err == nil || !strings.Contains(err.Error(), "v0.2.0") {
		t.Errorf("a version that does not exist: %v", err)
	}
}

// A checkout is built when its sources have changed. Otherwise no go command runs.
func TestBuildCheckout(t *testing.T) {
	root := t.TempDir()
	checkout, path := filepath.Join(root, "cluster"), filepath.Join(t.TempDir(), "cluster")
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(checkout, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module example.com/m\n\ngo 1.26\n")
	write("main.go", "package main\n\nimport _ \"example.com/m/own\"\n\nfunc main() {}\n")
	write("own/own.go", "package own\n")
	write("other/other.go", "package other\n")
	build := func() string {
		t.Helper()
		key, err := buildCheckout(t.Context(), checkout, path)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	first := build()
	searched := os.Getenv("PATH")
	t.Setenv("PATH", "") // there is no go command
	write("other/other.go", "package other // changed\n")
	write("own/own_test.go", "package own\n")
	if again := build(); again != first {
		t.Errorf("the key of the same sources was %s and is %s", first, again)
	}
	for _, name := range []string{"own/own.go", "own/new.go", "main.go", "go.mod"} {
		old, _ := os.ReadFile(filepath.Join(checkout, name)) // it may be new
		write(name, strings.TrimSpace("package own\n"+string(old)))
		if _, err := buildCheckout(t.Context(), checkout, path); err == nil {
			t.Errorf("nothing is built after a change of %s", name)
		}
		if len(old) == 0 {
			if err := os.Remove(filepath.Join(checkout, name)); err != nil {
				t.Fatal(err)
			}
			continue
		}
		write(name, string(old))
	}
	t.Setenv("PATH", searched)
	last := build()
	if last == first {
		t.Error("the key does not depend on the times of the files")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	build()
	if _, err := os.Stat(path); err != nil {
		t.Error("a command that was removed is not built again:", err)
	}
}

// The directory of this package tells its source.
func TestSourceOf(t *testing.T) {
	root := t.TempDir()
	version := filepath.Join(root, "mod", filepath.FromSlash(rootModule)+"@v0.1.0")
	checkout := filepath.Join(root, "checkout")
	for _, dir := range []string{version, filepath.Join(checkout, "cluster"), filepath.Join(root, "other@v0.1.0")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for dir, want := range map[string]source{
		version:                             {version: "v0.1.0", modules: filepath.Join(root, "mod")},
		checkout:                            {},
		filepath.Join(root, "other@v0.1.0"): {},
		version + "1":                       {}, // it does not exist
		rootModule + "@v0.1.0":              {}, // of a binary that was built with -trimpath
	} {
		if got, ok := sourceOf(dir); got != want || ok != (want != source{}) {
			t.Errorf("source of %s: %+v, %v", dir, got, ok)
		}
	}
	mod := filepath.Join(checkout, "cluster", "go.mod")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(mod, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("module evil\n\ngo 1.26.0\n") // a program of the user's, beside a test of a vendored module
	if got, ok := sourceOf(checkout); ok {
		t.Errorf("source of another module: %+v", got)
	}
	write("module " + clusterModule + "\n")
	if got, ok := sourceOf(checkout); !ok || got != (source{checkout: filepath.Dir(mod)}) {
		t.Errorf("source of a checkout: %+v, %v", got, ok)
	}
	if got, ok := sourceAround(rootModule + "/kubetest/source.go"); !ok || filepath.Base(got.checkout) != "cluster" {
		t.Errorf("source around this test: %+v, %v", got, ok)
	}
	if got, ok := sourceAround(rootModule + "@v0.1.0/kubetest/source.go"); ok {
		t.Errorf("source around a test of a version: %+v", got)
	}
}

// The checksum of a module is read from the module cache.
func TestModuleSumOfCache(t *testing.T) {
	modules := t.TempDir()
	dir := filepath.Join(modules, "cache", "download", filepath.FromSlash(clusterModule), "@v")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "v0.1.0.ziphash"), []byte("h1:sum="), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", "") // there is no go command
	if sum, err := moduleSum(t.Context(), modules, clusterModule, "v0.1.0"); err != nil || sum != "h1:sum=" {
		t.Errorf("%q, %v", sum, err)
	}
	if _, err := moduleSum(t.Context(), modules, clusterModule, "v0.2.0"); err == nil {
		t.Error("a version that the cache does not have has a checksum")
	}
}

// proxy writes a version of the cluster module as a proxy serves it, and returns the
// directory.
func proxy(t *testing.T, version, source string) string {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, clusterModule, "@v")
	mod := "module " + clusterModule + "\n\ngo 1.26\n"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	archive, err := os.Create(filepath.Join(dir, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	w := zip.NewWriter(archive)
	for name, text := range map[string]string{"go.mod": mod, "main.go": source} {
		f, err := w.Create(clusterModule + "@" + version + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for ext, text := range map[string]string{"mod": mod, "info": `{"Version": "` + version + `"}`} {
		if err := os.WriteFile(filepath.Join(dir, version+"."+ext), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}
