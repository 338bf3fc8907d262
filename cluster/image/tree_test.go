package image

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

func TestBuildTree(t *testing.T) {
	root, dir := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "usr/bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "usr/bin/tool"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("usr/bin", filepath.Join(root, "bin")); err != nil {
		t.Fatal(err)
	}
	tree := Tree{
		Root: root, Name: "tree:v1", Output: filepath.Join(dir, "1.tar"), User: 1000, Env: []string{"PATH=/bin"},
		Entrypoint: []string{"tool"},
	}
	got, err := BuildTree(t.Context(), tree)
	if err != nil {
		t.Fatal(err)
	}
	members, index, manifest, config := contentOf(t, tree.Output)
	want := v1.ImageConfig{User: "1000:1000", Env: tree.Env, Entrypoint: tree.Entrypoint, WorkingDir: "/"}
	if diff := cmp.Diff(want, config.Config); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	if got.Digest != index.Manifests[0].Digest.String() || config.RootFS.DiffIDs[0] != manifest.Layers[0].Digest {
		t.Errorf("result %+v, config %+v, manifest %+v", got, config, manifest)
	}
	var files []string
	for _, m := range readMembers(t, bytes.NewReader(blobOf(t, members, manifest.Layers[0]))) {
		files = append(files, m.name)
		if m.name == "usr/bin/tool" && (m.mode != 0o755 || string(m.data) != "#!/bin/sh\n") {
			t.Errorf("the program is %+v", m)
		}
	}
	if diff := cmp.Diff([]string{"bin", "data/", "usr/", "usr/bin/", "usr/bin/tool"}, files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}

	tree.Output = filepath.Join(dir, "2.tar")
	if err := os.Chtimes(filepath.Join(root, "data"), time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if again, err := BuildTree(t.Context(), tree); err != nil || again != got {
		t.Errorf("the second build gives %+v, %v, want %+v", again, err, got)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

func TestBuildTreeErrors(t *testing.T) {
	root, dir := t.TempDir(), t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(root, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, tree := range map[string]Tree{
		"Root and Output are needed": {Name: "a", Output: filepath.Join(dir, "x.tar")},
		`parse name "A B"`:           {Name: "A B", Root: root, Output: filepath.Join(dir, "x.tar")},
		"no such file or directory":  {Name: "a", Root: filepath.Join(root, "none"), Output: filepath.Join(dir, "x.tar")},
		"neither a file nor":         {Name: "a", Root: root, Output: filepath.Join(dir, "x.tar")},
	} {
		if _, err := BuildTree(t.Context(), tree); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}
