// Package ship builds the container images of the operators, without a container engine,
// and checks their sizes.
package ship

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/pintle-go/pintle/cluster/image"
)

const (
	mega = 1_000_000
	// No image and no program may be larger than this.
	maxImage  = 7*mega - 1
	maxBinary = 20*mega - 1
)

// Image describes the image to build.
type Image struct {
	Package string // the import path of the main package
	Name    string // the image's name in pods
	Output  string // the archive to write
}

// Build builds an image and prints its size. An image that is too large is an error.
func (i Image) Build(ctx context.Context, out io.Writer) error {
	if err := os.MkdirAll(filepath.Dir(i.Output), 0o755); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	result, err := image.Build(ctx, image.Options{
		Package: i.Package, Name: i.Name, Output: i.Output, MaxSize: maxImage,
		Tags: []string{"nethttpomithttp2"}, // the operators' ports serve probes and metrics
	})
	if result.Size > 0 {
		fmt.Fprintf(out, "%s: %.2f MB compressed (of %.1f), its program %.2f MB (of %.1f)\n%s in %s\n",
			result.Name, float64(result.Size)/mega, float64(maxImage)/mega, float64(result.Binary)/mega, float64(maxBinary)/mega, result.Digest, i.Output)
	}
	if err == nil && result.Binary > maxBinary {
		err = fmt.Errorf("the program has %d bytes, more than %d", result.Binary, maxBinary)
	}
	return err
}
