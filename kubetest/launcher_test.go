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
		sum, err := moduleSum(t.Context(), clusterModule, "v0.1.0")
		if err != nil || !strings.HasPrefix(sum, "h1:") {
			t.Fatalf("%q, %v", sum, err)
		}
		sums[sum] = true
	}
	if len(sums) != 2 {
		t.Errorf("different sources have the same checksum: %v", sums)
	}
	if _, err := moduleSum(t.Context(), clusterModule, "v0.2.0"); err == nil || !strings.Contains(err.Error(), "v0.2.0") {
		t.Errorf("a version that does not exist: %v", err)
	}
}

// A checkout is built once in a run of go test. Another run builds it again.
func TestBuildCheckoutOnce(t *testing.T) {
	checkout, path := t.TempDir(), filepath.Join(t.TempDir(), "cluster")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(checkout, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module example.com/m\n\ngo 1.26\n")
	write("main.go", "package main\n\nfunc main() {}\n")
	mark, ok := markOfRun(path)
	if !ok {
		t.Skip("go test has not built this binary for this run")
	}
	for range 2 {
		if err := buildCheckout(t.Context(), checkout, path); err != nil {
			t.Fatal(err)
		}
		write("main.go", "this is not Go")
	}
	if err := os.Remove(mark); err != nil { // as in another run
		t.Fatal(err)
	}
	if err := buildCheckout(t.Context(), checkout, path); err == nil {
		t.Error("another run does not build the checkout")
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
