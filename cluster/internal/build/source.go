package build

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
)

// A source is the origin of this module's packages: a checkout or a version.
type source struct {
	dir     string // the module's directory in a checkout
	version string // otherwise the module's version
}

func (s source) String() string {
	if s.dir != "" {
		return s.dir
	}
	return module + "@" + s.version
}

func findSource(ctx context.Context) (source, error) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return source{}, errors.New("this program was built without module information")
	}
	// Only a build through the module proxy has a checksum; builds of a checkout are
	// stamped with a version too.
	if info.Main.Path == module && info.Main.Sum != "" {
		return source{version: info.Main.Version}, nil
	}
	_, file, _, _ := runtime.Caller(0)
	dir, err := findCheckout(ctx, file)
	return source{dir: dir}, err
}

// findCheckout returns the directory of this module, by the path of this file in a
// binary: …/cluster/internal/build/source.go. With -trimpath, which may stand in a
// user's GOFLAGS, the path says nothing. Then the Go command is asked for the module
// in the working directory.
func findCheckout(ctx context.Context, file string) (string, error) {
	dir := filepath.Dir(filepath.Dir(filepath.Dir(file)))
	_, err := os.Stat(filepath.Join(dir, ControlPlane.target()))
	if err == nil {
		return dir, nil
	}
	out, listErr := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	dir = strings.TrimSpace(string(out))
	if listErr != nil || dir == "" {
		return "", fmt.Errorf(
			"find the sources of this program (run it in its checkout, or build it without -trimpath): %w", err,
		)
	}
	if _, err := os.Stat(filepath.Join(dir, ControlPlane.target())); err != nil {
		return "", fmt.Errorf("find the sources of this program: %w", err)
	}
	return dir, nil
}

// key identifies the result of a build of the sources in these directories.
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

// build returns the command that builds the binary of a program into out.
func (s source) build(ctx context.Context, program Program, out string, flags []string) *exec.Cmd {
	if s.dir != "" {
		args := append([]string{"build", "-v", "-o", filepath.Join(out, string(program))}, flags...)
		return s.command(ctx, append(args, "./"+program.target())...)
	}
	args := append([]string{"install", "-v"}, flags...)
	cmd := s.command(ctx, append(args, module+"/"+program.target()+"@"+s.version)...)
	cmd.Env = append(cmd.Env, "GOBIN="+out)
	return cmd
}

// command returns a run of the Go command that is independent of the caller's
// environment: go test sets flags for its children, and a user's workspace may lack our
// module.
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
	// An empty GOFLAGS would let the user's default take effect. The binary has no debug
	// information, so the compiler need not make any. Without cgo the binary is smaller by
	// a quarter and needs no C compiler.
	cmd.Env = append(cmd.Env, "GOFLAGS=-trimpath -gcflags=all=-dwarf=false", "CGO_ENABLED=0")
	return cmd
}
