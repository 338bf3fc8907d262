// Package local is what commands have in common that run the operators on a
// cluster of their own: the cluster, their output, their directory, and how they
// end and undo what they have begun.
package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// MakeDir makes a directory of the process's own, whose name begins with a prefix
// and the process id, and removes those of processes that were killed.
func MakeDir(prefix string) (string, error) {
	removeLeft(prefix)
	dir, err := os.MkdirTemp("", prefix+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		return "", fmt.Errorf("make directory: %w", err)
	}
	return dir, nil
}

// removeLeft removes the directories of earlier runs that were killed.
func removeLeft(dirPrefix string) {
	left, err := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	if err != nil {
		return // the pattern is bad, if TMPDIR is strange enough
	}
	for _, dir := range left {
		name, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), dirPrefix), "-")
		pid, err := strconv.Atoi(name)
		if err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = os.RemoveAll(dir) // what is not ours to remove stays
		}
	}
}
