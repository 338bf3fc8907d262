package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

const (
	clusterPackage  = "./cluster"
	oursEchoPackage = "./operators/echo"
	peerEchoPackage = "./peerecho"
)

// built is the size of an operator as it is shipped, in bytes.
type built struct {
	binary, image float64
}

// buildEcho builds both operators into dir, stripped, and their images. The same command
// makes both images: one layer with the program in it.
func buildEcho(ctx context.Context, dir string) (map[string]built, error) {
	imager := filepath.Join(dir, "cluster")
	if err := goInRepository(ctx, "build", "-trimpath", "-o", imager, clusterPackage); err != nil {
		return nil, fmt.Errorf("build the builder of images: %w", err)
	}
	sizes := map[string]built{}
	for name, from := range map[string]struct {
		place
		program string
	}{
		peerEcho: {place{dir: ".", goWork: "off"}, peerEchoPackage},
		oursEcho: {place{dir: repository}, oursEchoPackage},
	} {
		program, archive := filepath.Join(dir, name), filepath.Join(dir, name+".tar")
		if err := from.command(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, from.program); err != nil {
			return nil, err
		}
		info, err := os.Stat(program)
		if err != nil {
			return nil, err
		}
		if err := from.command(ctx, imager, "image", "--image", "example.com/"+name, "-o", archive, from.program); err != nil {
			return nil, err
		}
		image, err := imageSize(archive)
		if err != nil {
			return nil, err
		}
		sizes[name] = built{binary: float64(info.Size()), image: float64(image)}
	}
	return sizes, nil
}
