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
	"time"

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
func (o Options) upArgs(owner int, keep time.Duration) []string {
	args := []string{"--quiet", "--ephemeral", "--owner=" + strconv.Itoa(owner)}
	if keep > 0 {
		args = append(args, "--keep="+keep.String())
	}
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

// owner returns the process that a cluster belongs to: of a private cluster this one, and
// of a shared one the go command that runs the tests.
func (o Options) owner() int {
	if parent := os.Getppid(); !o.Private && isGoCommand(parent) {
		return parent
	}
	return os.Getpid()
}

// place returns the directory of a cluster. All test processes of one run of go test find a
// shared cluster at the same path, which contains the process id of the owner.
func (o Options) place(owner int) (dir string, err error) {
	base, err := temporary()
	if err != nil {
		return "", err
	}
	if o.Private {
		dir, err := os.MkdirTemp(base, "private-")
		if err != nil {
			return "", fmt.Errorf("make directory for cluster: %w", err)
		}
		return dir, nil
	}
	key, err := o.key()
	if err != nil {
		return "", err
	}
	return filepath.Join(base, fmt.Sprintf("shared-%d-%s", owner, key)), nil
}

// keptPlace returns the directory of a kept cluster. Runs at the same time have clusters
// with different numbers.
func (o Options) keptPlace(launcher string, number int) (dir string, err error) {
	base, err := temporary()
	if err != nil {
		return "", err
	}
	key, err := o.key()
	if err != nil {
		return "", err
	}
	return filepath.Join(base, fmt.Sprintf("kept-%s-%s-%d", launcher, key, number)), nil
}

// keepTime returns the time that shared clusters stay after their run.
func keepTime() (time.Duration, error) {
	text := os.Getenv(keepVariable)
	if text == "" {
		return 0, nil
	}
	keep, err := time.ParseDuration(text)
	if err != nil || keep < 0 {
		return 0, fmt.Errorf("%s=%q: want a time such as 10m", keepVariable, text)
	}
	return keep, nil
}

// temporary returns this user's own directory below the temporary one. Every user can
// guess its name and create it, so a directory that another user has created is refused.
func temporary() (string, error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("pintle-kubetest-%d", os.Getuid()))
	return dir, private.Dir(dir, "set TMPDIR to a directory of your own")
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
