package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"syscall"
)

const record = "cluster.json"

// names are the files and directories of a cluster, besides its record and its locks. Another
// name in the directory is the user's.
var names = []string{
	"authentication.yaml", "control.sock", "etcd", "kubeconfig", "kubeconfigs", "logs", "pki", "processes", "volume-plugins",
}

// node is the directory of a real node.
const node = "node"

// unfinished matches the files that a process leaves if it is killed while it writes.
var unfinished = regexp.MustCompile(`^\.(authentication\.yaml|cluster\.json|kubeconfig)\.[0-9]+$`)

// bare reports whether the directory has only locks: a cluster is about to start in
// it, or was just removed from it.
func (d Dir) bare() bool {
	entries, err := os.ReadDir(string(d))
	return err == nil && len(entries) > 0 && !slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return e.Name() != workLock && e.Name() != supervisorLock
	})
}

// Mark writes a first record, which proves from now on that the directory is a cluster's. A
// record that is there stays.
func (d Dir) Mark(r Record) error {
	if _, err := d.Record(); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return d.SetRecord(r)
}

// Remove removes the cluster, and returns the names that it leaves in the directory because
// they are not the cluster's. If there are none, it removes the directory too.
//
// It asks for two proofs at once before it removes anything: the cluster's record, and the
// lock of the supervisor, which the caller holds, in this same directory. Nothing may be
// mounted there. If Remove is interrupted, the record is still there.
func (d Dir) Remove(supervisor *Lock) (left []string, err error) {
	if err := supervisor.holds(d.Path(supervisorLock)); err != nil {
		return nil, fmt.Errorf("remove the cluster in %s: %w", d, err)
	}
	mine := names
	if r, err := d.Record(); err == nil {
		if r.Settings.RealNode || r.HadNode {
			mine = append([]string{node}, names...)
		}
	} else if !errors.Is(err, fs.ErrNotExist) || !d.bare() {
		return nil, fmt.Errorf("remove the cluster in %s: nothing proves that there is one: %w", d, err)
	}
	mounts, err := mountsUnder(string(d))
	if err != nil {
		return nil, err
	}
	if len(mounts) > 0 {
		return nil, fmt.Errorf("remove state directory: %s is still mounted", mounts[0])
	}
	socket, err := d.Socket()
	if err != nil {
		return nil, err
	}
	if err := RemoveSocket(socket); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return nil, fmt.Errorf("read state directory: %w", err)
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case slices.Contains(mine, name) || unfinished.MatchString(name):
			if err := os.RemoveAll(d.Path(name)); err != nil {
				return nil, fmt.Errorf("remove state directory: %w", err)
			}
		case name != record && name != workLock && name != supervisorLock:
			left = append(left, name)
		}
	}
	// The supervisor's lock is the last: until it is removed, no process starts a cluster here.
	for _, name := range []string{record, workLock, supervisorLock} {
		if err := os.Remove(d.Path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("remove state directory: %w", err)
		}
	}
	err = os.Remove(string(d)) // not what is in it
	if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST) {
		return left, nil // the user's, or of a cluster that starts
	}
	if err != nil {
		return nil, fmt.Errorf("remove state directory: %w", err)
	}
	return nil, nil
}

// RemoveSocket removes a socket that no process listens on any more. A file that is no socket
// stays, and is an error.
func RemoveSocket(path string) error {
	info, err := os.Lstat(path)
	if err == nil && info.Mode()&fs.ModeSocket == 0 {
		return fmt.Errorf("remove control socket: %s is no socket", path)
	}
	if err == nil {
		err = os.Remove(path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove control socket: %w", err)
	}
	return nil
}
