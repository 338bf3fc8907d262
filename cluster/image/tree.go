package image

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// Tree describes an image whose file system is a directory. Root, Name and Output are required.
type Tree struct {
	// Root is the directory. Its files, directories and links keep their modes. They belong to
	// the user of the image. Other kinds of files are errors.
	Root string
	// Name is the image's name in pods, as in [Options].
	Name string
	// Output is the file to write.
	Output string
	// User is the numeric id of the image's user and group. Default: 0, which is root.
	User int
	// Env has the environment of containers, as in "PATH=/usr/local/bin".
	Env []string
	// Entrypoint is the program of containers, with its first arguments.
	Entrypoint []string
}

// BuildTree builds an image of a directory, of which each file is read once: it may be larger
// than the memory. The layer is not compressed, because such an image is loaded where it was
// made. The same directory gives the same bytes. Output is written whole or not at all.
func BuildTree(ctx context.Context, t Tree) (Result, error) {
	if t.Root == "" || t.Output == "" {
		return Result{}, errors.New("build image: Root and Output are needed")
	}
	named, err := reference.ParseNormalizedNamed(t.Name)
	if err != nil {
		return Result{}, fmt.Errorf("build image: parse name %q: %w", t.Name, err)
	}
	name := reference.TagNameOnly(named).String()
	layer, err := t.layer(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("build image %s: %w", name, err)
	}
	result, err := t.write(name, layer)
	if err := errors.Join(err, os.Remove(layer.path)); err != nil {
		return Result{}, fmt.Errorf("build image %s: %w", name, err)
	}
	return result, nil
}

// treeLayer is the layer of an image of a directory.
type treeLayer struct {
	path   string
	digest digest.Digest
	size   int64
}

// layer writes the directory to a file beside the output.
func (t Tree) layer(ctx context.Context) (l treeLayer, err error) {
	out, err := os.CreateTemp(filepath.Dir(t.Output), "."+filepath.Base(t.Output)+".layer.*")
	if err != nil {
		return l, fmt.Errorf("make layer: %w", err)
	}
	defer func() {
		if closed := out.Close(); err == nil && closed != nil {
			err = fmt.Errorf("make layer: %w", closed)
		}
		if err != nil {
			err = errors.Join(err, os.Remove(out.Name()))
		}
	}()
	hash := digest.SHA256.Digester()
	w := tar.NewWriter(io.MultiWriter(out, hash.Hash()))
	err = filepath.WalkDir(t.Root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && path != t.Root {
			err = errors.Join(ctx.Err(), t.add(w, path, entry))
		}
		return err
	})
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return l, fmt.Errorf("make layer of %s: %w", t.Root, err)
	}
	size, err := out.Seek(0, io.SeekCurrent)
	if err != nil {
		return l, fmt.Errorf("make layer: %w", err)
	}
	return treeLayer{out.Name(), hash.Digest(), size}, nil
}

// add adds a file to the layer.
func (t Tree) add(w *tar.Writer, path string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	link := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		if link, err = os.Readlink(path); err != nil {
			return err
		}
	}
	h, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return err
	}
	if h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeDir && h.Typeflag != tar.TypeSymlink {
		return fmt.Errorf("%s is neither a file nor a directory nor a link", path)
	}
	if h.Name, err = filepath.Rel(t.Root, path); err != nil {
		return err
	}
	if info.IsDir() {
		h.Name += "/"
	}
	h.Uid, h.Gid, h.Uname, h.Gname = t.User, t.User, "", ""
	h.ModTime, h.AccessTime, h.ChangeTime = time.Unix(0, 0), time.Time{}, time.Time{}
	if err := w.WriteHeader(h); err != nil || h.Typeflag != tar.TypeReg {
		return err
	}
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	_, err = io.Copy(w, from)
	return err
}

// write writes an OCI layout that is also a docker archive.
func (t Tree) write(name string, layer treeLayer) (Result, error) {
	epoch, user := time.Unix(0, 0).UTC(), strconv.Itoa(t.User)
	config, err := json.Marshal(v1.Image{
		Created:  &epoch,
		Platform: v1.Platform{OS: "linux", Architecture: runtime.GOARCH},
		Config:   v1.ImageConfig{User: user + ":" + user, Env: t.Env, Entrypoint: t.Entrypoint, WorkingDir: "/"},
		RootFS:   v1.RootFS{Type: "layers", DiffIDs: []digest.Digest{layer.digest}},
		History:  []v1.History{{Created: &epoch, CreatedBy: "pintle image"}},
	})
	if err != nil {
		return Result{}, err
	}
	files, manifest, err := layout(name, runtime.GOARCH, config,
		v1.Descriptor{MediaType: v1.MediaTypeImageLayer, Digest: layer.digest, Size: layer.size})
	if err != nil {
		return Result{}, err
	}
	files = append(files, file{name: blobs + layer.digest.Encoded(), from: layer.path})
	return Result{
		Name: name, Digest: manifest.Digest.String(), Size: layer.size + int64(len(config)) + manifest.Size,
	}, writeTar(t.Output, files)
}
