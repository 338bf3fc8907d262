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

// echoProgram is a Go program to build: where, and its package there.
type echoProgram struct {
	place
	program string
}

// echoPrograms are the Echo operators in Go.
var echoPrograms = map[string]echoProgram{
	peerEcho: {place{dir: ".", goWork: "off"}, peerEchoPackage},
	oursEcho: {place{dir: repository}, oursEchoPackage},
}

// buildEcho builds both operators into dir, stripped, and their images. The same command
// makes both images: one layer with the program in it.
func buildEcho(ctx context.Context, dir string) (map[string]built, error) {
	imager := filepath.Join(dir, "cluster")
	if err := goInRepository(ctx, "build", "-trimpath", "-o", imager, clusterPackage); err != nil {
		return nil, fmt.Errorf("build the builder of images: %w", err)
	}
	sizes := map[string]built{}
	for name, from := range echoPrograms {
		binary, err := from.build(ctx, filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		archive := filepath.Join(dir, name+".tar")
		if err := from.command(
			ctx, imager, "image", "--image", "example.com/"+name, "-o", archive, from.program,
		); err != nil {
			return nil, err
		}
		image, err := imageSize(archive)
		if err != nil {
			return nil, err
		}
		sizes[name] = built{binary: binary, image: float64(image)}
	}
	return sizes, nil
}

// build builds the program, stripped, and returns its size.
func (p echoProgram) build(ctx context.Context, file string) (float64, error) {
	if err := p.command(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", file, p.program); err != nil {
		return 0, err
	}
	return fileSize(file)
}

func fileSize(file string) (float64, error) {
	info, err := os.Stat(file)
	if err != nil {
		return 0, err
	}
	return float64(info.Size()), nil
}
