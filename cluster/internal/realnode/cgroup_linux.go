package realnode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	cgroupRoot   = "/sys/fs/cgroup"
	cgroupPrefix = "pintle-"
)

// Kubernetes needs these controllers. cgroup v2 has no counterpart of cpuacct.
var controllers = []string{"cpu", "cpuacct", "cpuset", "memory", "pids"}

// A cgroup is the control group of all the node's processes. The node's own processes are
// in system, pods are below kubepods. In version 1 it is one directory in each hierarchy,
// in version 2 a single directory.
type cgroup struct{ name string }

func nodeCgroup(id string) cgroup { return cgroup{name: cgroupPrefix + id} }

func unified() bool {
	var s unix.Statfs_t
	return unix.Statfs(cgroupRoot, &s) == nil && s.Type == unix.CGROUP2_SUPER_MAGIC
}

// hierarchies returns the roots of the mounted hierarchies.
func hierarchies() ([]string, error) {
	if unified() {
		return []string{cgroupRoot}, nil
	}
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	var roots []string
	for line := range strings.Lines(string(data)) {
		before, after, _ := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if strings.HasPrefix(after, "cgroup ") && len(fields) > 4 && filepath.Dir(fields[4]) == cgroupRoot {
			roots = append(roots, fields[4])
		}
	}
	return roots, nil
}

// tracker returns the hierarchy that is used to find processes.
func tracker() string {
	if unified() {
		return cgroupRoot
	}
	return filepath.Join(cgroupRoot, "pids")
}

// make makes the group.
func (c cgroup) make() error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	for _, root := range roots {
		if err := mkdirIfMissing(filepath.Join(root, c.name)); err != nil {
			return fmt.Errorf("make control group: %w", err)
		}
	}
	if unified() {
		for _, dir := range []string{cgroupRoot, filepath.Join(cgroupRoot, c.name)} {
			if err := delegate(dir); err != nil {
				return err
			}
		}
	}
	if err := mkdirIfMissing(filepath.Join(tracker(), c.name, "system")); err != nil {
		return fmt.Errorf("make control group: %w", err)
	}
	return nil
}

func mkdirIfMissing(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// delegate lets the groups in dir use all controllers of dir.
func delegate(dir string) error {
	has, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("read controllers: %w", err)
	}
	for _, controller := range strings.Fields(string(has)) {
		err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+controller), 0)
		if err != nil && slices.Contains(controllers, controller) {
			return fmt.Errorf("delegate controller %s: %w", controller, err)
		}
	}
	return nil
}

// join moves a process of the node itself into the group.
func (c cgroup) join(pid int) error {
	err := os.WriteFile(filepath.Join(tracker(), c.name, "system", "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("put process %d into control group: %w", pid, err)
	}
	return nil
}

// pids returns the processes of the group and of the groups in it.
func (c cgroup) pids() ([]int, error) {
	var pids []int
	err := filepath.WalkDir(filepath.Join(tracker(), c.name), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !d.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
			return nil // removed meanwhile
		}
		if err != nil {
			return err
		}
		for _, field := range strings.Fields(string(data)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list processes of control group: %w", err)
	}
	return pids, nil
}

// terminate asks the containers to end and waits until they have ended, or ctx ends.
func (c cgroup) terminate(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for asked := false; ; asked = true {
		pids, err := c.pids()
		if err != nil {
			return err
		}
		alive := false
		for _, pid := range pids {
			if !firstOfContainer(pid) {
				continue
			}
			alive = true
			if asked {
				continue
			}
			if err := unix.Kill(pid, unix.SIGTERM); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("ask process %d to end: %w", pid, err)
			}
		}
		if !alive {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// firstOfContainer reports whether a process is process 1 of its own process namespace.
func firstOfContainer(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false
	}
	_, rest, _ := bytes.Cut(status, []byte("\nNSpid:"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	ids := bytes.Fields(line)
	return len(ids) > 1 && string(ids[len(ids)-1]) == "1"
}

// kill ends all processes of the group and returns when they are gone.
func (c cgroup) kill() error {
	for start := time.Now(); ; {
		pids, err := c.pids()
		if err != nil {
			return err
		}
		if len(pids) == 0 {
			return nil
		}
		if time.Since(start) > 20*time.Second {
			return fmt.Errorf("processes %v of the node do not end", pids)
		}
		for _, pid := range pids {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("kill process %d: %w", pid, err)
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// remove removes the group, which must have no processes.
func (c cgroup) remove() error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	for _, root := range roots {
		// The kernel needs a moment after the last process has ended.
		for start := time.Now(); ; time.Sleep(20 * time.Millisecond) {
			err = removeTree(filepath.Join(root, c.name))
			if err == nil {
				break
			}
			if time.Since(start) > 5*time.Second {
				return fmt.Errorf("remove control group: %w", err)
			}
		}
	}
	return nil
}

// removeTree removes groups from the innermost outward. os.RemoveAll would first try to
// remove the files, which is impossible.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeTree(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("rmdir %s: %w", dir, err)
	}
	return nil
}
