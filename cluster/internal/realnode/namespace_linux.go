package realnode

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// shadows are the usual paths of a node, and the directories of the node's part
// of the state directory that they are to the node.
var shadows = map[string]string{
	"/etc/cni/net.d":      "cni",
	"/run/containerd":     "run",
	"/var/lib/cni":        "cni-state",
	"/var/lib/containerd": "containerd",
	"/var/lib/kubelet":    "kubelet",
	"/var/log/pods":       "pods",
	"/var/log/containers": "containers",
}

// leftovers are what a node that has ended leaves in its directory and the next
// one must not see. Images (containerd) and what pods keep (kubelet) are not
// among them.
var leftovers = []string{"run", "cni", "cni-state", "containers"}

// tunables are the kernel's settings that a kubelet insists on. They are the
// whole machine's, so the node is shown files that say so instead.
var tunables = map[string]string{
	"/proc/sys/vm/overcommit_memory":      "1",
	"/proc/sys/vm/panic_on_oom":           "0",
	"/proc/sys/kernel/panic":              "10",
	"/proc/sys/kernel/panic_on_oops":      "1",
	"/proc/sys/kernel/keys/root_maxkeys":  "1000000",
	"/proc/sys/kernel/keys/root_maxbytes": "25000000",
}

// enter gives the calling thread namespaces of its own, in which the node's
// paths are directories of dir. What is mounted outside later shows inside, not
// the other way round.
func enter(dir string) error {
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("make namespaces: %w", err)
	}
	// Inside, mounts propagate: a kubelet's reach containers that ask for it.
	for _, how := range []uintptr{unix.MS_SLAVE, unix.MS_SHARED} {
		if err := unix.Mount("", "/", "", unix.MS_REC|how, ""); err != nil {
			return fmt.Errorf("set propagation of mounts: %w", err)
		}
	}
	// Version 2 mounted beside version 1 is of no use to a node, and crun
	// refuses to work where it is.
	if err := unix.Unmount(cgroupRoot+"/unified", unix.MNT_DETACH); err != nil && err != unix.EINVAL && err != unix.ENOENT {
		return fmt.Errorf("hide version 2 of control groups: %w", err)
	}
	for path, name := range shadows {
		if err := unix.Mount(filepath.Join(dir, name), path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("put %s in the place of %s: %w", filepath.Join(dir, name), path, err)
		}
	}
	for path := range tunables {
		if _, err := os.Stat(path); err != nil {
			continue // the kubelet does not miss it either
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

// makeDirs makes the directories and files that enter puts into place.
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
