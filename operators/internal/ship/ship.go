// Package ship builds the container images of the operators, without a container engine,
// and checks their sizes.
package ship

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/pintle-go/pintle/cluster/image"
)

const (
	mega = 1_000_000
	// No image and no program may be larger than this, unless it says so.
	maxImage  = 7.1*mega - 1
	maxBinary = 20*mega - 1
)

// Image describes the image to build.
type Image struct {
	Package string // the import path of the main package
	Name    string // the image's name in pods
	Output  string // the archive to write
	// Max and MaxBinary are the largest numbers of bytes of the compressed image and of its
	// program. Default: those of the smallest operators.
	Max, MaxBinary int64
}

// Build builds an image and prints its size. An image that is too large is an error.
func (i Image) Build(ctx context.Context, out io.Writer) error {
	if err := os.MkdirAll(filepath.Dir(i.Output), 0o755); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	most, mostBinary := cmp.Or(i.Max, int64(maxImage)), cmp.Or(i.MaxBinary, int64(maxBinary))
	result, err := image.Build(ctx, image.Options{
		Package: i.Package, Name: i.Name, Output: i.Output, MaxSize: most,
		Tags: []string{"nethttpomithttp2"}, // the operators' ports serve probes and metrics
	})
	if result.Size > 0 {
		fmt.Fprintf(
			out, "%s: %.2f MB compressed (of %.1f), its program %.2f MB (of %.1f)\n%s in %s\n", result.Name,
			float64(result.Size)/mega, float64(most)/mega, float64(result.Binary)/mega, float64(mostBinary)/mega,
			result.Digest, i.Output,
		)
	}
	if err == nil && result.Binary > mostBinary {
		err = fmt.Errorf("the program has %d bytes, more than %d", result.Binary, mostBinary)
	}
	return err
}

// Main is the main function of a command that builds images. It writes their archives
// into the directory that the flag -dir names.
func Main(images ...Image) {
	dir := flag.String("dir", "bin", "directory to write the archives to")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := BuildAll(ctx, *dir, os.Stdout, images...); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		stop()
		os.Exit(1)
	}
}

// BuildAll builds images. Their outputs are relative to a directory.
func BuildAll(ctx context.Context, dir string, out io.Writer, images ...Image) error {
	for _, i := range images {
		i.Output = filepath.Join(dir, i.Output)
		if err := i.Build(ctx, out); err != nil {
			return err
		}
	}
	return nil
}
