package process

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// startTime returns the boot's id and the process's start in ticks since boot.
func startTime(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return "", ErrGone
	}
	if err != nil {
		return "", err
	}
	fields := statFields(stat)
	if len(fields) <= started {
		return "", fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	// The first thread may end before the others, which hold the ports and files of the process until they end.
	if state := fields[0][0]; state == 'X' || state == 'Z' && string(fields[threads]) == "1" {
		return "", ErrGone
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(boot)) + "/" + string(fields[started]), nil
}

// Fields of a stat file from the state on, see proc_pid_stat(5). The state is field 0.
const threads, started = 17, 19

// statFields returns the fields of a stat file from the state on. The field before the state is a name in
// parentheses, which may contain any character.
func statFields(stat []byte) [][]byte {
	return bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
}

// stopped reports whether no thread of a process runs, because it was stopped or has
// ended.
func stopped(pid int) bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return true
	}
	for _, file := range threads {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		if fields := statFields(stat); len(fields) > 0 && !bytes.ContainsAny(fields[0][:1], "TtZX") {
			return false
		}
	}
	return true
}
