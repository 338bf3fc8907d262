//go:build !linux

package process

import (
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// startTime asks ps, which every Unix has. Its exit status is 1 if there is no such
// process.
func startTime(pid int) (string, error) {
	cmd := exec.Command("ps", "-o", "state=,lstart=", "-p", strconv.Itoa(pid))
	cmd.Env = []string{"LC_ALL=C", "TZ=UTC", "PATH=/bin:/usr/bin"}
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", ErrGone
	}
	if err != nil {
		return "", fmt.Errorf("run ps: %w", err)
	}
	state, started, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	if state == "" || strings.HasPrefix(state, "Z") {
		return "", ErrGone
	}
	return strings.TrimSpace(started), nil
}

func stopped(int) bool { return true } // this system does not report it
