// Command image builds foo's container image without a container engine and prints its
// size, which must stay under 7 MB compressed.
//
//	go run ./operators/foo/image [-o bin/foo.tar] [-name NAME]
//
// Run it in a checkout. ctr, docker and podman load the archive that it writes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/pintle-go/pintle/operators"
	"github.com/pintle-go/pintle/operators/internal/ship"
)

func main() {
	output := flag.String("o", filepath.Join("bin", "foo.tar"), "archive to write")
	name := flag.String("name", "", "the image's name in pods (default: as in foo/deploy/deployment.yaml)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *output, *name); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, output, name string) error {
	if name == "" {
		var err error
		if name, err = deployed(); err != nil {
			return err
		}
	}
	return ship.Image{
		Package: "github.com/pintle-go/pintle/operators/foo", Name: name, Output: output,
	}.Build(
		ctx, os.Stdout,
	)
}

// deployed returns the name of the image in the Deployment.
func deployed() (string, error) {
	yaml, err := operators.Files.ReadFile("foo/deploy/deployment.yaml")
	if err != nil {
		return "", fmt.Errorf("read deployment: %w", err)
	}
	for line := range strings.SplitSeq(string(yaml), "\n") {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "image: "); ok {
			return name, nil
		}
	}
	return "", errors.New("the deployment names no image")
}
