package image

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	_ "crypto/sha256" // go-digest does not import its algorithms
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

const (
	userID = 65532
	// The layer of the docker manifest names a blob of the OCI layout, so that the
	// archive has the layer once and both kinds of readers find it.
	blobs = "blobs/sha256/"
)

// A file is one file of the layer.
type file struct {
	name string // without the leading slash
	from string // file to read, or
	data []byte // its content
	mode int64
	dir  bool
}

// An archive is an image before it is compressed.
type archive struct {
	name         string
	layer        []byte // tar
	config       v1.Image
	uncompressed bool // the layer stays so
}

// mediaType returns the type of the layer when it is written.
func (a *archive) mediaType() string {
	if a.uncompressed {
		return v1.MediaTypeImageLayer
	}
	return v1.MediaTypeImageLayerGzip
}

func newArchive(name, goarch string, entrypoint []string, files []file) (*archive, error) {
	files = append(
		files,
		file{name: "tmp/", mode: 0o1777, dir: true},
		file{
			name: "etc/passwd", mode: 0o644,
			data: fmt.Appendf(nil, "root:x:0:0::/:/none\nnonroot:x:%d:%[1]d::/:/none\n", userID),
		},
		file{name: "etc/group", mode: 0o644, data: fmt.Appendf(nil, "root:x:0:\nnonroot:x:%d:\n", userID)},
	)
	files = withDirs(files)
	layer, err := makeLayer(files)
	if err != nil {
		return nil, fmt.Errorf("make layer: %w", err)
	}
	epoch := time.Unix(0, 0).UTC()
	diff := digest.FromBytes(layer)
	return &archive{
		name:  name,
		layer: layer,
		config: v1.Image{
			Created:  &epoch,
			Platform: v1.Platform{OS: "linux", Architecture: goarch},
			Config: v1.ImageConfig{
				User:       fmt.Sprintf("%d:%[1]d", userID),
				Env:        []string{"PATH=/"},
				Entrypoint: entrypoint,
				WorkingDir: "/",
			},
			RootFS:  v1.RootFS{Type: "layers", DiffIDs: []digest.Digest{diff}},
			History: []v1.History{{Created: &epoch, CreatedBy: "pintle image"}},
		},
	}, nil
}

// withDirs adds the parent directories of the files and sorts: parents first.
func withDirs(files []file) []file {
	have := map[string]bool{}
	for _, f := range files {
		have[f.name] = true
	}
	for _, f := range files {
		for dir := path.Dir(strings.TrimSuffix(f.name, "/")); dir != "." && !have[dir+"/"]; dir = path.Dir(dir) {
			have[dir+"/"] = true
			files = append(files, file{name: dir + "/", mode: 0o755, dir: true})
		}
	}
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.name, b.name) })
	return files
}

func makeLayer(files []file) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range files {
		data := f.data
		if f.from != "" {
			var err error
			if data, err = os.ReadFile(f.from); err != nil {
				return nil, err
			}
		}
		if err := writeEntry(w, f.name, data, f.mode, f.dir); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

func writeEntry(w *tar.Writer, name string, data []byte, mode int64, dir bool) error {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(data)), ModTime: time.Unix(0, 0)}
	if dir {
		h.Typeflag, h.Size = tar.TypeDir, 0
	}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}

// copyEntry writes a file of any size.
func copyEntry(w *tar.Writer, name, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: info.Size(), ModTime: time.Unix(0, 0)}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.Copy(w, in)
	return err
}

// dockerManifest is the manifest that docker load reads.
type dockerManifest struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// write writes an OCI layout that is also a docker archive. It compresses the layer first,
// unless that stays uncompressed.
func (a *archive) write(output string) (Result, error) {
	layer := a.layer
	if !a.uncompressed {
		var err error
		if layer, err = compress(a.layer); err != nil {
			return Result{}, fmt.Errorf("compress layer: %w", err)
		}
	}
	config, err := json.Marshal(a.config)
	if err != nil {
		return Result{}, err
	}
	files, manifest, err := layout(a.name, a.config.Architecture, config, descriptor(a.mediaType(), layer))
	if err != nil {
		return Result{}, err
	}
	files = append(files, file{name: blob(layer), data: layer})
	return Result{
		Name: a.name, Digest: manifest.Digest.String(), Size: int64(len(layer)+len(config)) + manifest.Size,
	}, writeTar(output, files)
}

// layout returns the files of an image's archive except its layer, and the descriptor of its
// manifest.
func layout(name, goarch string, config []byte, layer v1.Descriptor) (files []file, entry v1.Descriptor, err error) {
	manifest, err := json.Marshal(v1.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: v1.MediaTypeImageManifest,
		Config:    descriptor(v1.MediaTypeImageConfig, config),
		Layers:    []v1.Descriptor{layer},
	})
	if err != nil {
		return nil, entry, err
	}
	entry = descriptor(v1.MediaTypeImageManifest, manifest)
	entry.Platform = &v1.Platform{OS: "linux", Architecture: goarch}
	entry.Annotations = map[string]string{
		"io.containerd.image.name": name,
		v1.AnnotationRefName:       name[strings.LastIndexByte(name, ':')+1:],
	}
	index, err := json.Marshal(v1.Index{
		Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: v1.MediaTypeImageIndex,
		Manifests: []v1.Descriptor{entry},
	})
	if err != nil {
		return nil, entry, err
	}
	docker, err := json.Marshal([]dockerManifest{{
		Config:   blob(config),
		RepoTags: []string{name},
		Layers:   []string{blobs + layer.Digest.Encoded()},
	}})
	if err != nil {
		return nil, entry, err
	}
	return []file{
		{name: v1.ImageLayoutFile, data: []byte(`{"imageLayoutVersion":"` + v1.ImageLayoutVersion + `"}`)},
		{name: "index.json", data: index},
		{name: "manifest.json", data: docker},
		{name: blob(config), data: config},
		{name: blob(manifest), data: manifest},
	}, entry, nil
}

func descriptor(mediaType string, data []byte) v1.Descriptor {
	return v1.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
}

func blob(data []byte) string { return blobs + digest.FromBytes(data).Encoded() }

func compress(data []byte) ([]byte, error) {
	var buf bytes.Buffer
	w, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// writeTar writes the whole archive, or nothing if it fails.
func writeTar(output string, files []file) (err error) {
	temp, err := os.CreateTemp(filepath.Dir(output), "."+filepath.Base(output)+".*")
	if err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	defer func() {
		if err != nil {
			temp.Close()
			err = errors.Join(fmt.Errorf("write archive %s: %w", output, err), os.Remove(temp.Name()))
		}
	}()
	w := tar.NewWriter(temp)
	for _, f := range files {
		if f.from != "" {
			err = copyEntry(w, f.name, f.from)
		} else {
			err = writeEntry(w, f.name, f.data, 0o644, false)
		}
		if err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := temp.Chmod(0o644); err != nil {
		return err
	}
	if err := temp.Close(); err != nil {
		return err
	}
	return os.Rename(temp.Name(), output)
}

// readResult reports whether output already holds the image a under its name. Compressing
// takes longer than comparing.
func readResult(output string, a *archive) (Result, bool) {
	config, err := json.Marshal(a.config)
	if err != nil {
		return Result{}, false
	}
	f, err := os.Open(output)
	if err != nil {
		return Result{}, false
	}
	defer f.Close()

	var index v1.Index
	var manifest v1.Manifest
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if err != nil {
			return Result{}, false // the end, without a manifest
		}
		switch {
		case h.Name == "index.json":
			if json.NewDecoder(r).Decode(&index) != nil || len(index.Manifests) != 1 ||
				index.Manifests[0].Annotations["io.containerd.image.name"] != a.name {
				return Result{}, false
			}
		case len(index.Manifests) == 1 && h.Name == blobs+index.Manifests[0].Digest.Encoded():
			entry := index.Manifests[0]
			data, err := io.ReadAll(r)
			if err != nil || json.Unmarshal(data, &manifest) != nil || len(manifest.Layers) != 1 ||
				manifest.Layers[0].MediaType != a.mediaType() || manifest.Config.Digest != digest.FromBytes(config) {
				return Result{}, false
			}
			layer := manifest.Layers[0].Size
			if info, err := f.Stat(); err != nil || info.Size() < layer {
				return Result{}, false
			}
			return Result{Name: a.name, Digest: entry.Digest.String(), Size: layer + manifest.Config.Size + entry.Size}, true
		}
	}
}
