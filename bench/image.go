package main

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// descriptor is the part of an OCI descriptor that has the size of a blob.
type descriptor struct {
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

// imageSize returns the size that a registry would store of the image in an OCI archive:
// manifest, configuration and compressed layers.
func imageSize(path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	const small = 1 << 20 // index and manifests are small; layers are not read
	files := map[string][]byte{}
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, fmt.Errorf("read image: %w", err)
		}
		if h.Size < small {
			if files[h.Name], err = io.ReadAll(r); err != nil {
				return 0, fmt.Errorf("read image: %w", err)
			}
		}
	}
	var index struct{ Manifests []descriptor }
	if err := json.Unmarshal(files["index.json"], &index); err != nil || len(index.Manifests) == 0 {
		return 0, fmt.Errorf("read image index: %w", errors.Join(err, errors.New("no manifest")))
	}
	of := index.Manifests[0]
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	if err := json.Unmarshal(files["blobs/"+strings.Replace(of.Digest, ":", "/", 1)], &manifest); err != nil {
		return 0, fmt.Errorf("read image manifest: %w", err)
	}
	size := of.Size + manifest.Config.Size
	for _, l := range manifest.Layers {
		size += l.Size
	}
	return size, nil
}
