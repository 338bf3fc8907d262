package realnode

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// stop ends the node, even one that has only partly started.
func (r *run) stop(ctx context.Context) error {
	// The kubelet ends first, because it would restart the other processes.
	if p := r.processes[kubelet]; p != nil {
		if err := p.Stop(ctx, 5*time.Second); err != nil {
			return err
		}
	}
	grace, cancel := context.WithTimeout(ctx, containerGrace)
	defer cancel()
	if err := r.cgroup.terminate(grace); err != nil {
		return err
	}
	for _, name := range []string{containerd, kubeProxy} {
		if p := r.processes[name]; p != nil {
			if err := p.Stop(ctx, 5*time.Second); err != nil {
				return err
			}
		}
	}
	if r.forwarder != nil {
		r.forwarder.close()
	}
	if r.group != nil {
		r.group.Close() // its thread was the last one in the namespaces
	}
	return Clean(r.state)
}

// markFile exists from before a node changes anything until everything is undone.
func markFile(dir string) string { return filepath.Join(nodeDir(dir), "started") }

// Clean ends and removes everything that a node of the cluster in dir left, even after a
// crash: processes, control groups, interface, rules and files that the next node must
// not see. It is no error if nothing is left. Clean must not be called while the node's
// supervisor runs.
func Clean(dir string) error {
	_, err := os.Stat(markFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // there was no node, or it was cleaned up after
	}
	if err == nil {
		err = clean(dir)
	}
	if err != nil {
		return fmt.Errorf("clean up after the real node: %w", err)
	}
	return nil
}

func clean(dir string) error {
	id := clusterID(dir)
	if err := nodeCgroup(id).kill(); err != nil {
		return err
	}
	if err := nodeCgroup(id).remove(); err != nil {
		return err
	}
	if err := disconnect(id); err != nil {
		return err
	}
	if err := closeWorld(id); err != nil {
		return err
	}
	link, err := shortLink(dir)
	if err != nil {
		return err
	}
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, name := range leftovers {
		if err := os.RemoveAll(filepath.Join(nodeDir(dir), name)); err != nil {
			return err
		}
	}
	if err := restoreHost(); err != nil {
		return err
	}
	return os.Remove(markFile(dir))
}
