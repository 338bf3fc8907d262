package kubetest

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pintle-go/pintle/internal/private"
)

// key identifies clusters with these options.
func (o Options) key() (string, error) {
	data, err := json.Marshal(o)
	if err != nil {
		return "", fmt.Errorf("encode options: %w", err)
	}
	hash := sha256.Sum256(data)
	return fmt.Sprintf("%x", hash[:6]), nil
}

// upArgs are the flags of the cluster command.
func (o Options) upArgs(owner int) []string {
	args := []string{"--quiet", "--ephemeral", "--owner=" + strconv.Itoa(owner)}
	if o.Nodes > 0 {
		args = append(args, "--nodes="+strconv.Itoa(o.Nodes))
	}
	if o.ServerOnly {
		args = append(args, "--controllers=false")
	}
	for _, arg := range o.APIServerArgs {
		args = append(args, "--apiserver-arg="+arg)
	}
	return args
}

// place returns the process that the cluster belongs to and the cluster's directory. All
// test processes of one run of go test find a shared cluster at the same path, which
// contains the process id of the go command.
func (o Options) place() (owner int, dir string, err error) {
	base, err := temporary()
	if err != nil {
		return 0, "", err
	}
	if o.Private {
		dir, err := os.MkdirTemp(base, "private-")
		if err != nil {
			return 0, "", fmt.Errorf("make directory for cluster: %w", err)
		}
		return os.Getpid(), dir, nil
	}
	key, err := o.key()
	if err != nil {
		return 0, "", err
	}
	owner = os.Getpid()
	if parent := os.Getppid(); isGoCommand(parent) {
		owner = parent
	}
	return owner, filepath.Join(base, fmt.Sprintf("shared-%d-%s", owner, key)), nil
}

// temporary returns this user's own directory below the temporary one. Every user can
// guess its name and create it, so a directory that another user has created is refused.
func temporary() (string, error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("pintle-kubetest-%d", os.Getuid()))
	return dir, private.Dir(dir)
}

func isGoCommand(pid int) bool {
	program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil { // not Linux
		out, err := exec.Command("ps", "-o", "comm=", "-p", strconv.Itoa(pid)).Output()
		if err != nil {
			return false
		}
		program = strings.TrimSpace(string(out))
	}
	return filepath.Base(program) == "go"
}
