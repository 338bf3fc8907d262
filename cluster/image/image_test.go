package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

func TestBuildFromPackage(t *testing.T) {
	dir := t.TempDir()
	o := Options{
		Package: "./testdata/hello", Name: "hello:v1", Output: filepath.Join(dir, "hello.tar"),
	}
	got, err := Build(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if got.Name != "docker.io/library/hello:v1" {
		t.Errorf("name %q", got.Name)
	}
	// The OCI layout.
	members, index, manifest, config := contentOf(t, o.Output)
	if len(index.Manifests) != 1 || index.Manifests[0].Digest.String() != got.Digest {
		t.Fatalf("index: %+v, result %+v", index, got)
	}
	layer := blobOf(t, members, manifest.Layers[0])
	if size := index.Manifests[0].Size + manifest.Config.Size + manifest.Layers[0].Size; size != got.Size {
		t.Errorf("size is %d, blobs have %d", got.Size, size)
	}
	if config.Architecture != runtime.GOARCH || config.OS != "linux" || config.Config.User != "65532:65532" {
		t.Errorf("config: %+v", config)
	}
	if diff := cmp.Diff([]string{"/hello"}, config.Config.Entrypoint); diff != "" {
		t.Errorf("entrypoint (-want +got):\n%s", diff)
	}

	// The docker archive.
	var docker []dockerManifest
	decode(t, members["manifest.json"].data, &docker)
	want := []dockerManifest{{
		Config:   "blobs/sha256/" + manifest.Config.Digest.Encoded(),
		RepoTags: []string{got.Name},
		Layers:   []string{"blobs/sha256/" + manifest.Layers[0].Digest.Encoded()},
	}}
	if diff := cmp.Diff(want, docker); diff != "" {
		t.Errorf("docker manifest (-want +got):\n%s", diff)
	}

	// The layer.
	r, err := gzip.NewReader(bytes.NewReader(layer))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if config.RootFS.DiffIDs[0] != digest.FromBytes(plain) {
		t.Error("the config names another layer")
	}
	var names []string
	for _, m := range readMembers(t, bytes.NewReader(plain)) {
		names = append(names, m.name)
		if m.name == "hello" && (m.mode != 0o755 || int64(len(m.data)) != got.Binary) {
			t.Errorf("program: mode %o, %d bytes, want %d", m.mode, len(m.data), got.Binary)
		}
	}
	if diff := cmp.Diff([]string{"etc/", "etc/group", "etc/passwd", "hello", "tmp/"}, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestBuildIsReproducible(t *testing.T) {
	dir := t.TempDir()
	build := func(output string) ([]byte, Result) {
		t.Helper()
		result, err := Build(t.Context(), Options{Package: "./testdata/hello", Name: "hello", Output: output})
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(output)
		if err != nil {
			t.Fatal(err)
		}
		return data, result
	}
	first, one := build(filepath.Join(dir, "1.tar"))
	second, two := build(filepath.Join(dir, "2.tar"))
	if !bytes.Equal(first, second) {
		t.Error("two builds differ")
	}
	before, err := os.Stat(filepath.Join(dir, "1.tar"))
	if err != nil {
		t.Fatal(err)
	}
	_, three := build(filepath.Join(dir, "1.tar"))
	after, err := os.Stat(filepath.Join(dir, "1.tar"))
	if err != nil {
		t.Fatal(err)
	}
	if !before.ModTime().Equal(after.ModTime()) {
		t.Error("an archive that was right was written again")
	}
	if one != two || two != three {
		t.Errorf("results differ: %+v, %+v, %+v", one, two, three)
	}

	// A damaged archive is replaced.
	if err := os.WriteFile(filepath.Join(dir, "1.tar"), first[:2000], 0o644); err != nil {
		t.Fatal(err)
	}
	if again, _ := build(filepath.Join(dir, "1.tar")); !bytes.Equal(first, again) {
		t.Error("a damaged archive was left")
	}
}

// TestUncompressed writes an image in place of the same one, which is compressed.
func TestUncompressed(t *testing.T) {
	o := Options{Package: "./testdata/hello", Name: "hello", Output: filepath.Join(t.TempDir(), "hello.tar")}
	compressed, err := Build(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	o.Uncompressed = true
	got, err := Build(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if got.Size <= compressed.Size || got.Size <= got.Binary {
		t.Errorf("the image has %d bytes, its program %d, the compressed image %d", got.Size, got.Binary, compressed.Size)
	}
	members, _, manifest, config := contentOf(t, o.Output)
	layer := manifest.Layers[0]
	if layer.MediaType != v1.MediaTypeImageLayer || layer.Digest != config.RootFS.DiffIDs[0] {
		t.Errorf("the layer is %+v, the config names %s", layer, config.RootFS.DiffIDs[0])
	}
	readMembers(t, bytes.NewReader(blobOf(t, members, layer)))
}

func TestBuildFromBinary(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "tool")
	if err := os.WriteFile(binary, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := Build(
		t.Context(),
		Options{
			Binary: binary, Name: "tool", Output: filepath.Join(dir, "tool.tar"),
			Files: map[string]string{"/etc/ssl/certs/ca.pem": binary},
		},
	)
	if err == nil || !strings.Contains(err.Error(), "read program") {
		t.Errorf("a shell script was taken for a program: %v", err)
	}
}

// A directory of another module is built by the rules of that module.
func TestBuildElsewhere(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"go.mod":       "module example.com/else\n\ngo 1.26\n",
		"tool/main.go": "package main\n\nfunc main() {}\n",
	} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range []Options{
		{Package: filepath.Join(dir, "tool")},
		{Package: "./tool", Dir: dir},
		{Package: "example.com/else/tool", Dir: dir},
	} {
		o.Name, o.Output, o.Uncompressed = "tool", filepath.Join(dir, "tool.tar"), true
		if _, err := Build(t.Context(), o); err != nil {
			t.Errorf("%s in %q: %v", o.Package, o.Dir, err)
		}
	}
}

// A program whose main function needs a build tag is built with it.
func TestBuildWithTags(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"go.mod":  "module example.com/tagged\n\ngo 1.26\n",
		"main.go": "//go:build one && two\n\npackage main\n\nfunc main() {}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	o := Options{Package: dir, Name: "tagged", Output: filepath.Join(dir, "tagged.tar"), Uncompressed: true}
	if _, err := Build(t.Context(), o); err == nil {
		t.Error("without its tags the program was built")
	}
	o.Tags = []string{"one", "two"}
	if _, err := Build(t.Context(), o); err != nil {
		t.Error(err)
	}
}

func TestBuildSize(t *testing.T) {
	o := Options{
		Package: "./testdata/hello", Name: "hello", Output: filepath.Join(t.TempDir(), "hello.tar"), MaxSize: 10_000,
	}
	result, err := Build(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "more than the limit of 10000") || result.Size <= o.MaxSize {
		t.Fatalf("result %+v, error %v", result, err)
	}
}

func TestBuildErrors(t *testing.T) {
	out := filepath.Join(t.TempDir(), "x.tar")
	for _, test := range []struct {
		name string
		o    Options
		want string
	}{
		{"nothing to build", Options{Name: "a", Output: out}, "one of Package and Binary"},
		{"both", Options{Package: ".", Binary: "x", Name: "a", Output: out}, "one of Package and Binary"},
		{"no name", Options{Package: ".", Output: out}, "needs a name"},
		{"no output", Options{Package: ".", Name: "a"}, "the image needs an output file"},
		{"bad name", Options{Package: ".", Name: "A B", Output: out}, `parse name "A B"`},
		{"bad file", Options{Package: ".", Name: "a", Output: out, Files: map[string]string{"x/../y": "z"}}, "absolute path"},
		{"not main", Options{Package: ".", Name: "a", Output: out}, "no main packages to build"},
		{"not there", Options{Package: "./testdata/none", Name: "a", Output: out}, "no such file or directory"},
		{"no binary", Options{Binary: "/nonexistent", Name: "a", Output: out}, "no such file or directory"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Build(t.Context(), test.o)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
			if _, err := os.Stat(out); err == nil {
				t.Error("an archive was written")
			}
		})
	}
}

type member struct {
	name string
	mode int64
	data []byte
}

func readMembers(t *testing.T, r io.Reader) []member {
	t.Helper()
	var members []member
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return members
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, member{name: h.Name, mode: h.Mode, data: data})
	}
}

func readTar(t *testing.T, name string) map[string]member {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	byName := map[string]member{}
	for _, m := range readMembers(t, f) {
		byName[m.name] = m
	}
	return byName
}

// contentOf reads an archive as an OCI layout, whose first manifest is that of the image.
func contentOf(t *testing.T, archive string) (
	members map[string]member, index v1.Index, manifest v1.Manifest, config v1.Image,
) {
	t.Helper()
	members = readTar(t, archive)
	decode(t, members["index.json"].data, &index)
	if len(index.Manifests) == 0 {
		t.Fatal("the index names no manifest")
	}
	decode(t, blobOf(t, members, index.Manifests[0]), &manifest)
	decode(t, blobOf(t, members, manifest.Config), &config)
	return members, index, manifest, config
}

func blobOf(t *testing.T, members map[string]member, d v1.Descriptor) []byte {
	t.Helper()
	m := members["blobs/sha256/"+d.Digest.Encoded()]
	if digest.FromBytes(m.data) != d.Digest || int64(len(m.data)) != d.Size {
		t.Fatalf("blob %s does not match its digest", d.Digest)
	}
	return m.data
}

func decode(t *testing.T, data []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("decode %q: %v", data, err)
	}
}
