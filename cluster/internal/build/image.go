package build

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/pintle-go/pintle/cluster/image"
)

// ImageName is what pods call the image that [Builder.Image] makes of a package.
func ImageName(pkg string) string { return "pintle.local/" + path.Base(pkg) + ":latest" }

// Image returns an archive with an image of one of this module's main packages
// (internal/realnode/pause, say); like the binary it is built unless that was
// done before.
func (b Builder) Image(ctx context.Context, pkg string) (archive string, err error) {
	archive, err = b.image(ctx, pkg)
	if err != nil {
		return "", fmt.Errorf("build image of %s: %w", path.Base(pkg), err)
	}
	return archive, nil
}

func (b Builder) image(ctx context.Context, pkg string) (string, error) {
	src, err := findSource()
	if err != nil {
		return "", err
	}
	goVersion, err := src.goVersion(ctx)
	if err != nil {
		return "", err
	}
	key, err := src.key(goVersion, pkg, "image")
	if err != nil {
		return "", err
	}
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	name := "image-" + path.Base(pkg) + "-"
	archive := filepath.Join(cache, name+key+".tar")
	if used(archive) {
		return archive, nil
	}
	if old, err := filepath.Glob(filepath.Join(cache, name+"*.tar")); err == nil {
		for _, file := range old {
			if info, err := os.Stat(file); err != nil || time.Since(info.ModTime()) < keepUnused {
				continue
			}
			if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return "", err
			}
		}
	}

	fmt.Fprintf(b.Output, "building the image of %s: the first build can take a minute, later ones seconds\n", path.Base(pkg))
	// A workspace of the caller's need not have our module.
	o := image.Options{Package: module + "/" + pkg, Name: ImageName(pkg), Output: archive, Dir: src.dir, Env: []string{"GOWORK="}}
	if src.dir == "" {
		o.Package += "@" + src.version
		o.Env = []string{"GOWORK=off"}
	}
	_, err = image.Build(ctx, o)
	return archive, err
}
