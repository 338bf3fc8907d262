// Package image makes container images out of Go programs and of directories, without a
// container engine, a Dockerfile or a registry.
//
// [Build] compiles a main package into a static binary (or takes an existing one) and
// writes an archive that containerd, docker and podman can load. An image has one layer:
// the program as /NAME, a user nonroot (65532) that runs it, and an empty /tmp. The same
// sources, Go version and options give the same bytes.
//
// The image has no CA certificates: a program that talks to the API server of its cluster
// trusts the certificate in its service account's directory. A program that calls other
// servers names a bundle in [Options].Files.
package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/distribution/reference"
)

// Options describe the image to build. Package or Binary, Name and Output are required.
type Options struct {
	// Package is a main package: a directory (./operators/foo), an import
	// path, or an import path at a version (example.com/foo@v1.2.3).
	Package string
	// Binary is a static Linux program to use unchanged, in place of Package.
	Binary string

	// Name is the image's name in pods, such as example.com/foo:v1. As in docker, foo
	// means docker.io/library/foo:latest.
	Name string
	// Output is the file to write.
	Output string

	// Dir is the directory in which the go command runs. The module or workspace there
	// decides about versions. Default: the working directory.
	Dir string
	// GOARCH is the processor of the image. Default: this machine's.
	GOARCH string
	// Env is added to the environment of the go command.
	Env []string
	// LDFlags are passed to the linker in addition to -s -w.
	LDFlags string
	// Tags are build tags. With nethttpomithttp2 a program is some 0.2 MB smaller: its
	// own servers then speak HTTP/1.1 only. Clients of Kubernetes still speak HTTP/2,
	// because client-go has its own copy.
	Tags []string

	// Files are put into the image. The keys are absolute paths in the image, the values
	// are local files.
	Files map[string]string

	// Uncompressed leaves the layer as it is: compressing it takes seconds, and is of no use
	// to an image that is loaded where it was made.
	Uncompressed bool
	// MaxSize is the largest allowed number of bytes of the image, which is compressed unless
	// Uncompressed is set; 0 means no limit.
	MaxSize int64
}

// A Result describes the built image.
type Result struct {
	Name   string // the full name
	Digest string // of the manifest
	Size   int64  // as a registry stores it: layer, config and manifest
	Binary int64  // bytes of the program itself
}

// Build builds an image. If Output already holds an archive with the same image, it is
// left alone. The error contains the go command's output. An image that is larger than
// MaxSize is an error too. Its archive is written nevertheless, so that it can be examined,
// and Build returns its Result.
func Build(ctx context.Context, o Options) (result Result, err error) {
	if err := o.check(); err != nil {
		return Result{}, fmt.Errorf("build image: %w", err)
	}
	named, err := reference.ParseNormalizedNamed(o.Name)
	if err != nil {
		return Result{}, fmt.Errorf("build image: parse name %q: %w", o.Name, err)
	}
	name := reference.TagNameOnly(named).String()

	binary, base := o.Binary, filepath.Base(o.Binary)
	if o.Package != "" {
		var temp string
		if temp, err = os.MkdirTemp("", "pintle-image-"); err != nil {
			return Result{}, fmt.Errorf("build image %s: %w", name, err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
		if binary, err = compile(ctx, o, temp); err != nil {
			return Result{}, fmt.Errorf("build image %s: %w", name, err)
		}
		base = filepath.Base(binary)
	}
	if err := checkStatic(binary); err != nil {
		return Result{}, fmt.Errorf("build image %s: %w", name, err)
	}
	result, err = pack(o, name, binary, base)
	if err != nil {
		return Result{}, fmt.Errorf("build image %s: %w", name, err)
	}
	if o.MaxSize > 0 && result.Size > o.MaxSize {
		return result, fmt.Errorf("image %s has %d bytes compressed, %d more than the limit of %d",
			name, result.Size, result.Size-o.MaxSize, o.MaxSize)
	}
	return result, nil
}

func (o *Options) check() error {
	if (o.Package == "") == (o.Binary == "") {
		return errors.New("one of Package and Binary is needed")
	}
	if o.Name == "" {
		return errors.New("the image needs a name")
	}
	if o.Output == "" {
		return errors.New("the image needs an output file")
	}
	for name := range o.Files {
		if !path.IsAbs(name) || path.Clean(name) != name || name == "/" {
			return fmt.Errorf("%q is not the clean absolute path of a file", name)
		}
	}
	if o.GOARCH == "" {
		o.GOARCH = runtime.GOARCH
	}
	return nil
}

// pack writes the archive unless it already exists.
func pack(o Options, name, binary, base string) (Result, error) {
	info, err := os.Stat(binary)
	if err != nil {
		return Result{}, err
	}
	files := []file{{name: strings.TrimPrefix(base, "/"), from: binary, mode: 0o755}}
	for name, from := range o.Files {
		files = append(files, file{name: strings.TrimPrefix(name, "/"), from: from, mode: 0o644})
	}
	a, err := newArchive(name, o.GOARCH, []string{"/" + base}, files)
	if err != nil {
		return Result{}, err
	}
	a.uncompressed = o.Uncompressed
	if old, ok := readResult(o.Output, a); ok {
		old.Binary = info.Size()
		return old, nil
	}
	result, err := a.write(o.Output)
	result.Binary = info.Size()
	return result, err
}
