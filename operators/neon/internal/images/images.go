// Package images has the images that the end-to-end tests run: those of Neon, or images of the
// stand-ins in the same layout.
//
// The environment chooses:
//
//	NEON_IMAGE_REF, COMPUTE_IMAGE_REF  names of images, which the node pulls
//	NEON_DIRECTORY                     a directory with the files of Neon's images, of which images are made
//	POSTGRES_VERSION                   the major version of the compute; default 17
//
// Without them the images are of the stand-ins, with this machine's PostgreSQL.
//
// Upstream's Dockerfile and compute/compute-node.Dockerfile have the layout: the storage's
// programs are in /usr/local/bin, with a PostgreSQL of each version in /usr/local/v14 to v17;
// compute_ctl and its PostgreSQL are in /usr/local/bin. The user's id is 1000. A directory may
// have both images' files, or one in neon and one in compute below it. It need not have the C
// library or a shell: libraries that its programs need are added from this machine.
package images

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pintle-go/pintle/cluster/image"
)

// Set is the images of a NeonDatabase.
type Set struct {
	// Storage and Compute are the images' names.
	Storage, Compute string
	// PostgresVersion is the compute's major version.
	PostgresVersion string
	// Archives hold images that must be loaded into the node.
	Archives []string
	// From tells people where the images are from.
	From string
}

// user is the id of the user of upstream's images.
const user = 1000

// Make returns the images that the environment names, or makes them in a directory.
func Make(ctx context.Context, dir string) (Set, error) {
	s := Set{
		Storage: os.Getenv("NEON_IMAGE_REF"), Compute: os.Getenv("COMPUTE_IMAGE_REF"),
		PostgresVersion: cmp.Or(os.Getenv("POSTGRES_VERSION"), "17"),
	}
	from := os.Getenv("NEON_DIRECTORY")
	switch {
	case s.Storage != "" && s.Compute != "" && from == "":
		s.From = "images by name: " + s.Storage + ", " + s.Compute
		return s, nil
	case s.Storage != "" || s.Compute != "":
		return s, errors.New("set both NEON_IMAGE_REF and COMPUTE_IMAGE_REF, or only NEON_DIRECTORY")
	case from != "":
		s.From = "images of directory " + from
		return s, s.directory(ctx, from, dir)
	}
	s.From = "stand-ins for Neon's programs, with this machine's PostgreSQL"
	return s, s.standIns(ctx, dir)
}

// directory makes the images of a directory.
func (s *Set) directory(ctx context.Context, from, dir string) error {
	parts := []string{from}
	if _, err := os.Stat(filepath.Join(from, "compute")); err == nil {
		parts = []string{filepath.Join(from, "neon"), filepath.Join(from, "compute")}
	}
	var roots []string
	for i, part := range parts {
		root := filepath.Join(dir, fmt.Sprintf("root-%d", i))
		if err := copyTree(part, root); err != nil {
			return err
		}
		if err := accounts(root); err != nil {
			return err
		}
		if err := complete(root); err != nil {
			return err
		}
		roots = append(roots, root)
	}
	return s.build(ctx, dir, roots[0], roots[len(roots)-1])
}

// build makes the archives of both images. As in upstream's, the loader finds the libraries of the
// compute's PostgreSQL, and those of the storage's only where it is told.
func (s *Set) build(ctx context.Context, dir, storage, compute string) error {
	s.Storage, s.Compute = "pintle.test/neon:e2e", "pintle.test/compute-node-v"+s.PostgresVersion+":e2e"
	path := "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	for _, t := range []image.Tree{
		{Root: storage, Name: s.Storage, Env: []string{path}},
		{Root: compute, Name: s.Compute, Env: []string{path, "LD_LIBRARY_PATH=/usr/local/lib"}, Entrypoint: []string{"/usr/local/bin/compute_ctl"}},
	} {
		t.User, t.Output = user, filepath.Join(dir, fmt.Sprintf("image-%d.tar", len(s.Archives)))
		if _, err := image.BuildTree(ctx, t); err != nil {
			return err
		}
		s.Archives = append(s.Archives, t.Output)
	}
	return nil
}

// accounts writes the files of accounts that upstream's images have, unless they are there. The
// programs of PostgreSQL refuse an account without a name.
func accounts(root string) error {
	if err := os.MkdirAll(filepath.Join(root, "etc"), 0o755); err != nil { //nolint:gosec // as everywhere
		return fmt.Errorf("make accounts: %w", err)
	}
	for name, text := range map[string]string{
		"passwd": fmt.Sprintf("root:x:0:0::/root:/bin/sh\nneon:x:%d:%[1]d::/data:/bin/sh\n", user),
		"group":  fmt.Sprintf("root:x:0:\nneon:x:%d:\n", user),
	} {
		path := filepath.Join(root, "etc", name)
		if _, err := os.Lstat(path); err == nil {
			continue
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil { //nolint:gosec // as everywhere
			return fmt.Errorf("make accounts: %w", err)
		}
	}
	return nil
}
