package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"

	"github.com/pintle-go/pintle/cluster/image"
)

// makeImage builds the image of a Go program and writes it to a file.
func makeImage(ctx context.Context, t target, args []string) error {
	o := image.Options{}
	limit := 0.0
	flags, err := t.parse(
		"image", "--image NAME -o ARCHIVE.tar  PACKAGE  or  --binary PROGRAM", args,
		func(flags *flag.FlagSet) {
			flags.StringVar(&o.Name, "image", "", "the image's name")
			flags.StringVar(&o.Output, "o", "", "file to write: an OCI layout that docker load can read too")
			flags.StringVar(&o.Binary, "binary", "", "static Linux program to use in place of a Go main package")
			flags.StringVar(&o.GOARCH, "arch", "", "processor to build for, a value of GOARCH (default: that of this machine)")
			flags.Func(
				"tags",
				"comma-separated build tags; nethttpomithttp2 makes a program smaller that serves only probes and metrics",
				func(tags string) error {
					o.Tags = strings.Split(tags, ",")
					return nil
				},
			)
			flags.Float64Var(&limit, "max-size", 0, "fail if the image has more compressed MB (of 1,000,000 bytes)")
		},
	)
	if err != nil {
		return err
	}
	switch {
	case flags.NArg() == 1 && o.Binary == "":
		o.Package = flags.Arg(0)
	case flags.NArg() != 0 || o.Binary == "":
		return errors.New("name one Go main package, or one program by --binary")
	}
	o.MaxSize = int64(limit * 1e6)
	result, err := image.Build(ctx, o)
	if result.Name != "" {
		fmt.Printf(
			"image %s: %.2f MB compressed, program %.2f MB, in %s\n", result.Name, float64(result.Size)/1e6,
			float64(result.Binary)/1e6, o.Output,
		)
	}
	return err
}
