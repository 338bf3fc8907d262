package main

import (
	"context"
	"errors"
	"flag"

	"github.com/pintle-go/pintle/cluster/image"
	"github.com/pintle-go/pintle/cluster/internal/realnode"
)

// load loads an image into the real node, from an archive or built from a Go program.
func load(ctx context.Context, t target, args []string) error {
	name := ""
	flags, err := t.parse("load", "ARCHIVE.tar  or  --image NAME PACKAGE", args, func(flags *flag.FlagSet) {
		flags.StringVar(&name, "image", "", "build an image of this name from the Go main package")
	})
	if err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("name an image archive (from docker save, for example), or with --image a Go main package")
	}
	dir, err := t.dir()
	if err != nil {
		return err
	}
	if name == "" {
		return realnode.Load(ctx, string(dir), flags.Arg(0))
	}
	result, err := realnode.LoadMain(ctx, string(dir), image.Options{Package: flags.Arg(0), Name: name})
	if err != nil {
		return err
	}
	say("loaded %s: %.1f MB", result.Name, float64(result.Size)/1e6)
	return nil
}
