// Command image builds the container images of the Echo operator and of the echo server
// that is shipped with it, without a container engine, and prints their sizes.
//
//	go run ./operators/echo/image [-dir bin]
//
// Run it in a checkout. It writes the archives echo.tar and echo-server.tar. ctr, docker
// and podman load them.
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

const echo = "github.com/pintle-go/pintle/operators/echo"

func main() {
	dir := flag.String("dir", "bin", "directory to write the archives to")
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
	for _, i := range []ship.Image{
		{Package: echo, Name: "ghcr.io/pintle-go/echo:v0.1.0", Output: filepath.Join(dir, "echo.tar")},
		{Package: echo + "/server", Name: "ghcr.io/pintle-go/echo-server:v0.1.0", Output: filepath.Join(dir, "echo-server.tar")},
	} {
		if err := i.Build(ctx, out); err != nil {
			return err
		}
	}
	return nil
}
