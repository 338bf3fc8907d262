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
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/pintle-go/pintle/internal/private"
)

const (
	rootModule    = "github.com/pintle-go/pintle"
	clusterModule = rootModule + "/cluster"
)

// buildLauncher returns the path of the cluster command. If necessary it builds the
// command: from the checkout that contains this package, or at this package's version.
func buildLauncher(ctx context.Context) (string, error) {
	path, err := build(ctx)
	if err != nil {
		return "", fmt.Errorf("build the cluster command: %w", err)
	}
	return path, nil
}

func build(ctx context.Context) (string, error) {
	checkout, version, err := findSource(ctx)
	if err != nil {
		return "", err
	}
	source := checkout
	if source == "" {
		// A private proxy, or a module that was published again, may have other sources
		// for the same version.
		sum, err := moduleSum(ctx, clusterModule, version)
		if err != nil {
			return "", err
		}
		source = version + " " + sum
	}
	cache, err := os.UserCacheDir()
	if err != nil { // the user has no home directory
		if cache, err = temporary(); err != nil {
			return "", err
		}
	}
	hash := sha256.Sum256([]byte(source))
	dir := filepath.Join(cache, "pintle", "launcher", fmt.Sprintf("%x", hash[:8]))
	// A user who can write to the directory could have this user run any program.
	if err := private.Dir(dir); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "cluster")

	unlock, err := lock(ctx, filepath.Join(dir, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if checkout != "" {
		return path, buildCheckout(ctx, checkout, path)
	}
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	return path, goCommand(ctx, dir, []string{"GOBIN=" + dir, "GOWORK=off"}, "install", clusterModule+"@"+version)
}

// buildCheckout builds the command of a checkout, unless the same run of go test has built
// it. A build without changes takes seconds of the processor, and a run has many test
// binaries. The caller has locked the directory of the command.
func buildCheckout(ctx context.Context, checkout, path string) error {
	mark, ok := markOfRun(path)
	if ok {
		if _, err := os.Stat(mark); err == nil {
			return nil
		}
	}
	if err := goCommand(ctx, checkout, nil, "build", "-o", path, "."); err != nil {
		return err
	}
	if !ok {
		return nil
	}
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		return fmt.Errorf("mark the command as built: %w", err)
	}
	return nil
}

// markOfRun returns a file that exists if this run of go test has built a command. The
// file is in the temporary directory of the go command, which has built the test binary
// there and removes it at the end of the run. Another binary belongs to no such run.
func markOfRun(path string) (mark string, ok bool) {
	binary, err := os.Executable()
	if err != nil {
		return "", false
	}
	work := filepath.Dir(filepath.Dir(binary))
	hash := sha256.Sum256([]byte(path))
	mark = filepath.Join(work, fmt.Sprintf("pintle-built-%x", hash[:8]))
	return mark, strings.HasPrefix(filepath.Base(work), "go-build")
}

// findSource returns the directory of the cluster module if this package was built from a
// checkout, or otherwise the version of both modules.
func findSource(ctx context.Context) (checkout, version string, err error) {
	// A test binary does not record its source, but a test runs in the directory of its
	// package, and there the go command knows. The version is empty for a checkout.
	const format = "{{.Dir}}\n{{with .Replace}}{{.Version}}{{else}}{{.Version}}{{end}}"
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", format, rootModule).Output()
	if err == nil {
		lines := strings.Split(string(out), "\n")
		// Only a checkout has the other modules below this one.
		dir := filepath.Join(strings.TrimSpace(lines[0]), "cluster")
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, "", nil
		}
		if len(lines) > 1 && lines[1] != "" {
			return "", strings.TrimSpace(lines[1]), nil
		}
	} else if errors.Is(err, exec.ErrNotFound) {
		return "", "", fmt.Errorf("find the go command: %w", err)
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", "", errors.New("this program was built without module information")
	}
	for _, module := range append(info.Deps, &info.Main) {
		if module.Replace != nil {
			module = module.Replace
		}
		if module.Path == rootModule && module.Sum != "" {
			return "", module.Version, nil
		}
	}
	return "", "", fmt.Errorf(
		"cannot find a checkout of %s or its version (run tests in the directory of their package)", rootModule,
	)
}

// moduleSum returns the checksum of a version of a module, which it downloads if
// necessary.
func moduleSum(ctx context.Context, module, version string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module+"@"+version)
	cmd.Dir, cmd.Env = os.TempDir(), append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	out, err := cmd.Output() // of a failed download too
	var downloaded struct{ Sum, Error string }
	if jerr := json.Unmarshal(out, &downloaded); err != nil || jerr != nil || downloaded.Sum == "" {
		return "", fmt.Errorf("find the checksum of %s@%s: %w %s", module, version, errors.Join(err, jerr), downloaded.Error)
	}
	return downloaded.Sum, nil
}

func goCommand(ctx context.Context, dir string, env []string, args ...string) error {
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
	slow := time.AfterFunc(3*time.Second, func() {
		fmt.Fprintln(os.Stderr, "kubetest: building the cluster command: the first build takes a minute or two")
	})
	defer slow.Stop()
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = dir, append(env, "GOFLAGS=-buildvcs=false")
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, output.Bytes())
	}
	return nil
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

// lock takes the lock of a file. The lock is released when the process ends, at the
// latest.
func lock(ctx context.Context, file string) (unlock func(), err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", file, err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("wait for another build: %w", context.Cause(ctx))
		case <-time.After(50 * time.Millisecond):
		}
	}
}
