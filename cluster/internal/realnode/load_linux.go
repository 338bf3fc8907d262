package realnode

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
)

// Load puts the images of an archive (OCI layout or docker archive) into the
// node of the cluster in dir, where pods find them without a registry. Such pods
// need an imagePullPolicy of Never or IfNotPresent.
func Load(ctx context.Context, dir, archive string) error {
	if err := load(ctx, dir, archive); err != nil {
		return fmt.Errorf("load images of %s: %w", archive, err)
	}
	return nil
}

func load(ctx context.Context, dir, archive string) error {
	if _, err := os.Stat(archive); err != nil {
		return err
	}
	ctr, err := lookPath("ctr")
	if err != nil {
		return err
	}
	socket, remove, err := shortPath(filepath.Join(nodeDir(dir), "run", "containerd.sock"))
	if err != nil {
		return err
	}
	defer remove()
	c, err := net.Dial("unix", socket) // ctr would try for ten seconds
	if err != nil {
		return errNoNode
	}
	c.Close()
	cmd := exec.CommandContext(ctx, ctr, "--address", socket, "--namespace", "k8s.io", "images", "import", "--digests=false", archive)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("run ctr: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// shortPath returns a path that fits into a socket's address.
func shortPath(path string) (short string, remove func(), err error) {
	if len(path) < 100 {
		return path, func() {}, nil
	}
	dir, remove, err := tempDir()
	if err != nil {
		return "", nil, err
	}
	link := filepath.Join(dir, "d")
	if err := os.Symlink(filepath.Dir(path), link); err != nil {
		remove()
		return "", nil, err
	}
	return filepath.Join(link, filepath.Base(path)), remove, nil
}
