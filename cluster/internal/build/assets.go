package build

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// Assets returns a directory with the programs that envtest of controller-runtime starts.
// They are links to the binaries, which are built first unless they are in the cache.
func (b Builder) Assets(ctx context.Context) (string, error) {
	plane, err := b.Program(ctx, ControlPlane)
	if err != nil {
		return "", err
	}
	kubectl, err := b.Program(ctx, Kubectl)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(filepath.Dir(plane), "assets")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make directory of assets: %w", err)
	}
	for name, binary := range map[string]string{"etcd": plane, "kube-apiserver": plane, "kubectl": kubectl} {
		if err := link(binary, filepath.Join(dir, name)); err != nil {
			return "", fmt.Errorf("link %s: %w", name, err)
		}
	}
	return dir, nil
}

// link makes a symbolic link unless it exists. Concurrent calls do not disturb each
// other, nor a program that is being started.
func link(target, name string) error {
	if is, err := os.Readlink(name); err == nil && is == target {
		return nil
	}
	temp, err := os.MkdirTemp(filepath.Dir(name), ".link-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }() // if it stays, it only takes room
	if err := os.Symlink(target, filepath.Join(temp, "link")); err != nil {
		return err
	}
	return os.Rename(filepath.Join(temp, "link"), name)
}
