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

// key names what clusters with these options have in common.
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

// place returns the process that the cluster belongs to and the directory it is
// kept in. Those that are shared are at a place that all test processes of one
// run of go test know: it is named after the go command's process.
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

// temporary returns this user's own directory below the temporary one. Everybody
// can guess its name and make it: one that another user has made is refused.
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
