// Package build makes the kubernetes binary (cmd/kubernetes) that the launcher
// runs, from Go modules, and keeps it in the user's cache directory.
//
// From a checkout it builds the checkout's sources; in a launcher that was
// installed or run as module@version it builds that same version. Either way
// nothing but the Go command and its module proxy is needed. A binary is kept
// under a key of what it was made from, so that a change makes a new one and
// running clusters keep theirs.
package build

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/pintle-go/pintle/cluster/internal/state"
)

const (
	module = "github.com/pintle-go/pintle/cluster"
	target = "cmd/kubernetes"

	// Binaries that were not used for this long are removed.
	keepUnused = 30 * 24 * time.Hour
)

// A Builder makes the kubernetes binary.
type Builder struct {
	// GoMod is the cluster module's go.mod: it says which Kubernetes it is.
	GoMod []byte
	// Output is told what happens when there is something to build.
	Output io.Writer
}

// Version returns the version of Kubernetes, such as v1.36.3.
func (b Builder) Version() (string, error) {
	found := regexp.MustCompile(`(?m)^\s*(?:require\s+)?k8s\.io/kubernetes (v\S+)`).FindSubmatch(b.GoMod)
	if found == nil {
		return "", errors.New("go.mod names no version of k8s.io/kubernetes")
	}
	return string(found[1]), nil
}

// Kubernetes returns the path of the binary; it builds it first unless that was
// done before. Two who ask at once build it once.
func (b Builder) Kubernetes(ctx context.Context) (string, error) {
	path, err := b.kubernetes(ctx)
	if err != nil {
		return "", fmt.Errorf("build kubernetes: %w", err)
	}
	return path, nil
}

func (b Builder) kubernetes(ctx context.Context) (string, error) {
	src, err := findSource()
	if err != nil {
		return "", err
	}
	goVersion, err := src.goVersion(ctx)
	if err != nil {
		return "", err
	}
	key, err := src.key(goVersion, target, "internal/lifeline")
	if err != nil {
		return "", err
	}
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(cache, key, "kubernetes")
	if used(path) {
		return path, nil
	}

	lock, err := state.Take(ctx, filepath.Join(cache, "build.lock"), func() {
		fmt.Fprintln(b.Output, "another build of Kubernetes is under way: waiting for it")
	})
	if err != nil {
		return "", err
	}
	defer lock.Release()
	if used(path) {
		return path, nil
	}
	removeUnused(cache)
	return path, b.build(ctx, src, path)
}

func (b Builder) build(ctx context.Context, src source, path string) error {
	version, err := b.Version()
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp(filepath.Dir(filepath.Dir(path)), "building-*")
	if err != nil {
		return fmt.Errorf("make build directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(temp) }() // a later build's removeUnused finds what stays

	cmd := src.build(ctx, temp, "-s -w "+stamp(version))
	show := newProgress(b.Output, "building Kubernetes "+version)
	fmt.Fprintf(b.Output, "building Kubernetes %s from %s: the first build takes minutes (about six on two cores), later ones seconds\n", version, src)
	cmd.Stderr = show
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	err = cmd.Run()
	show.close()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd.Args[:2], err, show.errors())
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make directory of binary: %w", err)
	}
	if err := os.Rename(filepath.Join(temp, "kubernetes"), path); err != nil {
		return fmt.Errorf("keep binary: %w", err)
	}
	return nil
}

// stamp sets what a release of Kubernetes has set in it: the API server's
// version would otherwise be one that kubectl refuses to parse.
func stamp(version string) string {
	major, minor := "", ""
	if parts := strings.Split(strings.TrimPrefix(version, "v"), "."); len(parts) > 1 {
		major, minor = parts[0], parts[1]
	}
	var flags []string
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags = append(flags,
			"-X "+pkg+".gitVersion="+version,
			"-X "+pkg+".gitMajor="+major,
			"-X "+pkg+".gitMinor="+minor,
			"-X "+pkg+".gitTreeState=clean",
		)
	}
	return strings.Join(flags, " ")
}

// A source is where the binary's packages come from: a checkout or a version.
type source struct {
	dir     string // the module's directory in a checkout
	version string // else the module's version
}

func (s source) String() string {
	if s.dir != "" {
		return s.dir
	}
	return module + "@" + s.version
}

func findSource() (source, error) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return source{}, errors.New("this program was built without module information")
	}
	// Only what came through the module proxy has a checksum; a version is
	// stamped on builds of a checkout too.
	if info.Main.Path == module && info.Main.Sum != "" {
		return source{version: info.Main.Version}, nil
	}
	_, file, _, _ := runtime.Caller(0) // …/cluster/internal/build/build.go
	dir := filepath.Dir(filepath.Dir(filepath.Dir(file)))
	if _, err := os.Stat(filepath.Join(dir, target)); err != nil {
		return source{}, fmt.Errorf("the sources this program was built from are not there any more (build it again, without -trimpath): %w", err)
	}
	return source{dir: dir}, nil
}

// goVersion asks the Go command that will build which version it is: in a
// module that wants a newer one it is the newer one.
func (s source) goVersion(ctx context.Context) (string, error) {
	out, err := s.command(ctx, "env", "GOVERSION").Output()
	if err != nil {
		return "", fmt.Errorf("run the go command (is Go installed and in PATH?): %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// key names what would be made from the sources in these directories.
func (s source) key(goVersion string, dirs ...string) (string, error) {
	if s.version != "" {
		return s.version + "-" + goVersion, nil
	}
	files := []string{filepath.Join(s.dir, "go.mod"), filepath.Join(s.dir, "go.sum")}
	for _, dir := range dirs {
		sources, err := filepath.Glob(filepath.Join(s.dir, dir, "*.go"))
		if err != nil {
			return "", fmt.Errorf("list sources: %w", err)
		}
		files = append(files, sources...)
	}
	hash := sha256.New()
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("hash sources: %w", err)
		}
		fmt.Fprintf(hash, "%s %d\n%s", filepath.Base(file), len(data), data)
	}
	return fmt.Sprintf("devel-%x-%s", hash.Sum(nil)[:8], goVersion), nil
}

// build returns the command that puts the binary, named kubernetes, into out.
func (s source) build(ctx context.Context, out, ldflags string) *exec.Cmd {
	if s.dir != "" {
		return s.command(ctx, "build", "-v", "-ldflags", ldflags, "-o", filepath.Join(out, "kubernetes"), "./"+target)
	}
	cmd := s.command(ctx, "install", "-v", "-ldflags", ldflags, module+"/"+target+"@"+s.version)
	cmd.Env = append(cmd.Env, "GOBIN="+out)
	return cmd
}

// command returns a run of the Go command that the caller's surroundings do not
// disturb: go test sets flags for its children, a user's workspace need not
// have our module.
func (s source) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = s.dir
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		switch name {
		case "GOWORK", "GOFLAGS", "GOOS", "GOARCH", "GOBIN", "CGO_ENABLED", "PWD":
		default:
			cmd.Env = append(cmd.Env, variable)
		}
	}
	if s.dir == "" {
		cmd.Env = append(cmd.Env, "GOWORK=off")
	}
	// An empty GOFLAGS would let the user's default through. Without cgo the
	// binary is smaller by a quarter and needs no C compiler.
	cmd.Env = append(cmd.Env, "GOFLAGS=-trimpath", "CGO_ENABLED=0")
	return cmd
}

func cacheDir() (string, error) {
	var dir string
	if os.Getenv(state.HomeVariable) == "" {
		if cache, err := os.UserCacheDir(); err == nil {
			dir = filepath.Join(cache, "pintle", "bin")
		}
	}
	if dir == "" {
		home, err := state.Home()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(home, "bin")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make cache directory: %w", err)
	}
	return dir, nil
}

// used reports whether the binary is there, and marks it as used.
func used(path string) bool {
	now := time.Now()
	return os.Chtimes(path, now, now) == nil
}

func removeUnused(cache string) {
	for _, pattern := range []string{"*/kubernetes", "image-*", "building-*"} {
		files, err := filepath.Glob(filepath.Join(cache, pattern))
		if err != nil {
			return
		}
		for _, file := range files {
			info, err := os.Stat(file)
			if err == nil && time.Since(info.ModTime()) > keepUnused {
				_ = os.RemoveAll(file) // it only takes room
			}
		}
	}
}
