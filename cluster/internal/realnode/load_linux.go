package realnode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/pintle-go/pintle/cluster/internal/state"
)

// Load loads the images of an archive (OCI layout or docker archive) into the node of the
// cluster in dir, where pods find them without a registry. Such pods need an
// imagePullPolicy of Never or IfNotPresent.
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
	socket, err := containerdSocketOf(dir)
	if err != nil {
		return err
	}
	c, err := net.Dial("unix", socket) // ctr would try for ten seconds
	if err != nil {
		return fmt.Errorf("%w (%w)", errNoNode, err)
	}
	c.Close()
	cmd := exec.CommandContext(
		ctx, ctr, "--address", socket, "--namespace", "k8s.io", "images", "import", "--digests=false", archive,
	)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("run ctr: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// containerdSocketOf returns the path by which the host reaches the containerd of the
// cluster in dir. The path of a socket is limited to about a hundred bytes, so for a long
// directory the path goes through a link in [state.Dir.Short].
func containerdSocketOf(dir string) (string, error) {
	path := filepath.Join(nodeDir(dir), "run", "containerd.sock")
	if len(path) < 100 {
		return path, nil
	}
	link, err := shortLink(dir)
	if err != nil {
		return "", err
	}
	target, err := os.Readlink(link)
	if errors.Is(err, fs.ErrNotExist) {
		target, err = filepath.Dir(path), os.Symlink(filepath.Dir(path), link)
	}
	if err == nil && target != filepath.Dir(path) {
		err = fmt.Errorf("%s leads to %s", link, target)
	}
	return filepath.Join(link, filepath.Base(path)), err
}

// shortLink returns the path of a link to a node's sockets.
func shortLink(dir string) (string, error) {
	short, err := state.Dir(dir).Short()
	return filepath.Join(short, clusterID(dir)), err
}
