// Command image builds the container image of the Letter operator, without a container
// engine, and prints its size.
//
//	go run ./operators/letter/image [-dir bin]
//
// Run it in a checkout. ctr, docker and podman load the archive letter.tar that it
// writes.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/pintle-go/pintle/operators/internal/ship"
)

func main() {
	dir := flag.String("dir", "bin", "directory to write the archive to")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *dir, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string, out io.Writer) error {
	return ship.Image{
		Package: "github.com/pintle-go/pintle/operators/letter",
		Name:    "ghcr.io/pintle-go/letter:v0.1.0",
		Output:  filepath.Join(dir, "letter.tar"),
	}.Build(ctx, out)
}
