// Package local has the common parts of the commands that run the operators on a local
// cluster: the cluster, the output, the directory, and an orderly end that undoes their
// steps.
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

// MakeDir makes a directory for this process, whose name begins with a prefix and the
// process id. It removes the directories of killed processes.
func MakeDir(prefix string) (string, error) {
	removeLeft(prefix)
	dir, err := os.MkdirTemp("", prefix+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		return "", fmt.Errorf("make directory: %w", err)
	}
	return dir, nil
}

// removeLeft removes the directories that killed runs have left.
func removeLeft(dirPrefix string) {
	left, err := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	if err != nil {
		return // the pattern is bad, if TMPDIR contains unusual characters
	}
	for _, dir := range left {
		name, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), dirPrefix), "-")
		pid, err := strconv.Atoi(name)
		if err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = os.RemoveAll(dir) // a directory that we may not remove stays
		}
	}
}
