package build

import (
	"context"
	"fmt"
	"path"

	"github.com/pintle-go/pintle/cluster/image"
)

// ImageName returns the name, in pods, of the image that [Builder.Image] builds of a
// package.
func ImageName(pkg string) string { return "pintle.local/" + path.Base(pkg) + ":latest" }

// Image returns an archive with an image of one of this module's main packages
// (internal/realnode/pause, for example). It builds the image first unless it is in the
// cache, like the binary.
func (b Builder) Image(ctx context.Context, pkg string) (archive string, err error) {
	archive, err = b.image(ctx, pkg)
	if err != nil {
		return "", fmt.Errorf("build image of %s: %w", path.Base(pkg), err)
	}
	return archive, nil
}

func (b Builder) image(ctx context.Context, pkg string) (string, error) {
	p, err := find(ctx, "image-"+path.Base(pkg)+"-*.tar", pkg, "image")
	if err != nil || p.used() {
		return p.path, err
	}
	removeUnused(p.cache)
	title := "building the image of " + path.Base(pkg)
	fmt.Fprintln(b.Output, title)
	show := newProgress(b.Output, title, "")
	defer show.close()
	// A workspace of the caller may lack our module.
	o := image.Options{
		Package: module + "/" + pkg, Name: ImageName(pkg), Output: p.path, Dir: p.source.dir, Env: []string{"GOWORK="},
	}
	if p.source.dir == "" {
		o.Package += "@" + p.source.version
		o.Env = []string{"GOWORK=off"}
	}
	_, err = image.Build(ctx, o)
	return p.path, err
}
