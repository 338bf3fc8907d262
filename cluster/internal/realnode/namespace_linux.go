package realnode

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// shadows maps the usual paths of a node to the directories in the node's part of the
// state directory that replace them for the node.
var shadows = map[string]string{
	"/etc/cni/net.d":      "cni",
	"/run/containerd":     "run",
	"/var/lib/cni":        "cni-state",
	"/var/lib/containerd": "containerd",
	"/var/lib/kubelet":    "kubelet",
	"/var/log/pods":       "pods",
	"/var/log/containers": "containers",
}

// leftovers are the remains of an ended node that the next node must not see. Images
// (containerd) and the pods' data (kubelet) are not among them.
var leftovers = []string{"run", "cni", "cni-state", "containers"}

// tunables are the kernel settings that a kubelet requires. They apply to the whole
// machine, so the node sees files with these values instead.
var tunables = map[string]string{
	"/proc/sys/vm/overcommit_memory":      "1",
	"/proc/sys/vm/panic_on_oom":           "0",
	"/proc/sys/kernel/panic":              "10",
	"/proc/sys/kernel/panic_on_oops":      "1",
	"/proc/sys/kernel/keys/root_maxkeys":  "1000000",
	"/proc/sys/kernel/keys/root_maxbytes": "25000000",
}

// enter gives the calling thread namespaces of its own, in which the node's paths are
// directories of dir. Later mounts outside are visible inside; mounts inside are not
// visible outside.
func enter(dir string) error {
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("make namespaces: %w", err)
	}
	// Inside, mounts propagate: the kubelet's mounts reach the containers that ask for
	// them.
	for _, how := range []uintptr{unix.MS_SLAVE, unix.MS_SHARED} {
		if err := unix.Mount("", "/", "", unix.MS_REC|how, ""); err != nil {
			return fmt.Errorf("set propagation of mounts: %w", err)
		}
	}
	// Version 2 mounted beside version 1 is useless to a node, and crun refuses to work
	// if it is mounted.
	if err := unix.Unmount(
		cgroupRoot+"/unified", unix.MNT_DETACH,
	); err != nil && err != unix.EINVAL &&
		err != unix.ENOENT {
		return fmt.Errorf("hide version 2 of control groups: %w", err)
	}
	for path, name := range shadows {
		if err := unix.Mount(filepath.Join(dir, name), path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s at %s: %w", filepath.Join(dir, name), path, err)
		}
	}
	for path := range tunables {
		if _, err := os.Stat(path); err != nil {
			continue // the kubelet does not need it either
		}
		if err := unix.Mount(tunableFile(dir, path), path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("show the node its own %s: %w", path, err)
		}
	}
	return nil
}

func tunableFile(dir, path string) string {
	return filepath.Join(dir, "tunables", filepath.Base(path))
}

// makeDirs makes the directories and files that enter mounts.
func makeDirs(dir string) error {
	for _, name := range shadows {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "tunables"), 0o755); err != nil {
		return err
	}
	for path, value := range tunables {
		if err := os.WriteFile(tunableFile(dir, path), []byte(value+"\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}
