package kubetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/pintle-go/pintle/internal/private"
)

// A launcher is the cluster command.
type launcher struct {
	path string
	key  string // of its sources: launchers with different keys share no kept cluster
}

// buildLauncher returns the cluster command. If necessary it builds the command: from the
// checkout that contains this package, or at this package's version. If nothing has
// changed, no other program runs.
func buildLauncher(ctx context.Context) (launcher, error) {
	l, err := build(ctx)
	if err != nil {
		return launcher{}, fmt.Errorf("build the cluster command: %w", err)
	}
	return l, nil
}

func build(ctx context.Context) (launcher, error) {
	from, err := findSource(ctx)
	if err != nil {
		return launcher{}, err
	}
	id := from.checkout
	if id == "" {
		// A private proxy, or a module that was published again, may have other sources
		// for the same version. The Go version is that of the Kubernetes that it builds.
		sum, err := moduleSum(ctx, from.modules, clusterModule, from.version)
		if err != nil {
			return launcher{}, err
		}
		id = strings.Join([]string{from.version, sum, runtime.Version()}, " ")
	}
	cache, err := os.UserCacheDir()
	if err != nil { // the user has no home directory
		if cache, err = temporary(); err != nil {
			return launcher{}, err
		}
	}
	cache, why := private.Own(cache, ".cache")
	if why != "" {
		fmt.Fprintln(os.Stderr, "kubetest:", why)
	}
	hash := sha256.Sum256([]byte(id))
	key := fmt.Sprintf("%x", hash[:8])
	dir := filepath.Join(cache, "pintle", "launcher", key)
	// A user who can write to the directory could have this user run any program.
	remedy := "set HOME, or XDG_CACHE_HOME on Linux, to a directory of your own"
	if err := private.Dir(dir, remedy); err != nil {
		return launcher{}, err
	}
	path := filepath.Join(dir, "cluster")

	unlock, err := private.Lock(ctx, filepath.Join(dir, "lock"))
	if err != nil {
		return launcher{}, err
	}
	defer unlock()
	if from.checkout != "" {
		key, err := buildCheckout(ctx, from.checkout, path)
		return launcher{path, key}, err
	}
	if _, err := os.Stat(path); err == nil {
		return launcher{path, key}, nil
	}
	_, err = goCommand(
		ctx, dir, []string{"GOBIN=" + dir, "GOWORK=off"}, "install", clusterModule+"@"+from.version,
	)
	return launcher{path, key}, err
}

// buildCheckout builds the command of a checkout, unless it was built from the same
// sources. It returns their key. The caller has locked the directory of the command.
func buildCheckout(ctx context.Context, checkout, path string) (key string, err error) {
	record := path + ".json"
	if is, err := readBuilt(record); err == nil {
		key, err := digest(checkout, is.Dirs)
		if _, missing := os.Stat(path); err == nil && key == is.Key && missing == nil {
			return key, nil
		}
	}
	dirs, err := packageDirs(ctx, checkout)
	if err != nil {
		return "", err
	}
	// The key is computed before the build. A change during the build has the command built
	// again next time.
	if key, err = digest(checkout, dirs); err != nil {
		return "", err
	}
	// Another process may be about to run the earlier command.
	next := path + ".new"
	if _, err := goCommand(ctx, checkout, nil, "build", "-o", next, "."); err != nil {
		return "", err
	}
	data, err := json.Marshal(built{Dirs: dirs, Key: key})
	if err != nil {
		return "", fmt.Errorf("encode the record of the command: %w", err)
	}
	if err := errors.Join(os.Rename(next, path), os.WriteFile(record, data, 0o600)); err != nil {
		return "", fmt.Errorf("keep the command: %w", err)
	}
	return key, nil
}

func readBuilt(file string) (built, error) {
	var record built
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &record)
	}
	return record, err
}

// goCommand runs the go command and returns its output. If it takes long, its progress is
// shown.
func goCommand(ctx context.Context, dir string, env []string, args ...string) (string, error) {
	// go test sets flags for its children. A user's default flags or workspace may not
	// suit another module.
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		switch name {
		case "GOFLAGS", "GOWORK", "GOBIN", "GOOS", "GOARCH", "PWD":
		default:
			env = append(env, variable)
		}
	}
	var output, complaints bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = dir, append(env, "GOFLAGS=-buildvcs=false")
	cmd.Stdout, cmd.Stderr = &output, &complaints
	stop := showTime("building the cluster command")
	defer stop()
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, complaints.Bytes())
	}
	return output.String(), nil
}

// showTime prints every few seconds how long something takes, until stop is called. After
// that it prints nothing.
func showTime(what string) (stop func()) {
	begun, end, ended := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for after := 3 * time.Second; ; after = 10 * time.Second {
			select {
			case <-end:
				return
			case <-time.After(after):
				fmt.Fprintf(os.Stderr, "kubetest: %s: %s\n", what, time.Since(begun).Round(time.Second))
			}
		}
	}()
	return func() { close(end); <-ended }
}

// run runs a command on this cluster. The command's output is shown, because the command
// may take long. It is in the error too.
func (c *Cluster) run(ctx context.Context, command string, args ...string) error {
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, c.command, append([]string{"--dir", c.dir, command}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	cmd.Stderr = io.MultiWriter(os.Stderr, &said)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("cluster %s: %w\n%s", command, err, bytes.TrimSpace(said.Bytes()))
	}
	return nil
}
