package main

import (
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

// checkImage compares the size of an image archive with a limit. The size is that of the
// gzipped archive, which a registry stores and a node pulls.
func checkImage(_ context.Context, _ *Repo, args []string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	limit := flags.Float64("under", 0, "the largest size allowed, in MB of 1,000,000 bytes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 || *limit <= 0 {
		return errors.New("check image: name the limit with -under MB and the archives")
	}
	var failed error
	for _, name := range flags.Args() {
		size, err := compressedSize(name)
		if err != nil {
			return fmt.Errorf("measure image: %w", err)
		}
		fmt.Printf("image: %s is %.2f MB compressed, limit %.2f\n", name, float64(size)/1e6, *limit)
		if float64(size) >= *limit*1e6 {
			failed = errors.Join(failed, fmt.Errorf("image %s is not under %.2f MB", name, *limit))
		}
	}
	return failed
}

// compressedSize returns the size of a file after gzip. A file with compressed layers
// keeps its size, except for the frame of gzip.
func compressedSize(name string) (int64, error) {
	file, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	var n counter
	zip := gzip.NewWriter(&n)
	if _, err := io.Copy(zip, file); err != nil {
		return 0, err
	}
	if err := zip.Close(); err != nil {
		return 0, err
	}
	return int64(n), nil
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
