package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// prefix is the common prefix of all module and package paths of the repository.
const prefix = "github.com/pintle-go/pintle"

// A Repo is a checkout: the directory with go.work, and the modules that
// go.work names.
type Repo struct {
	Dir     string
	Modules []Module
}

// A Module is one module of the workspace.
type Module struct {
	Path string // its module path
	Dir  string // its directory
	Sub  string // the directory relative to the repository, "" for the root
}

// Name returns the name of the module's golden file.
func (m Module) Name() string {
	if m.Sub == "" {
		return "pintle"
	}
	return strings.ReplaceAll(m.Sub, "/", "-")
}

// FindRepo looks for go.work in dir and its parents.
func FindRepo(dir string) (*Repo, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find repository: %w", err)
	}
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.work")); err == nil {
			return openRepo(at)
		}
		if at == filepath.Dir(at) {
			return nil, fmt.Errorf("find repository: no go.work in %s or above", dir)
		}
	}
}

func openRepo(dir string) (*Repo, error) {
	name := filepath.Join(dir, "go.work")
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read workspace: %w", err)
	}
	work, err := modfile.ParseWork(name, data, nil)
	if err != nil {
		return nil, fmt.Errorf("parse workspace: %w", err)
	}
	repo := &Repo{Dir: dir}
	for _, use := range work.Use {
		sub := filepath.ToSlash(filepath.Clean(use.Path))
		if sub == "." {
			sub = ""
		}
		m := Module{Dir: filepath.Join(dir, sub), Sub: sub}
		data, err := os.ReadFile(filepath.Join(m.Dir, "go.mod"))
		if err != nil {
			return nil, fmt.Errorf("read module: %w", err)
		}
		m.Path = modfile.ModulePath(data)
		repo.Modules = append(repo.Modules, m)
	}
	return repo, nil
}

// Env returns the environment for go commands in the workspace. It has no cgo and the flags
// of the local cluster's build. So both share one build cache, and a check does not compile
// Kubernetes a second time.
func (r *Repo) Env(more ...string) []string {
	return slices.Concat(userEnv(), clusterFlags, more)
}

// clusterFlags are the settings with which the local cluster and make lint compile.
var clusterFlags = []string{"GOFLAGS=-trimpath -gcflags=all=-dwarf=false", "CGO_ENABLED=0"}

// userEnv returns the environment of a person at work in the repository. The tools
// themselves run outside the workspace, and their commands must not inherit that.
func userEnv() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GOWORK=") })
}

// goldenEnv is Env for a fixed system, so that golden files are the same on every system.
func (r *Repo) goldenEnv() []string { return r.Env("GOOS=linux", "GOARCH=amd64") }

// output runs a command in the workspace and returns its output.
func (r *Repo) output(ctx context.Context, dir, name string, args ...string) (string, error) {
	return output(ctx, dir, r.goldenEnv(), name, args...)
}

// runOff runs a command outside the workspace.
func (r *Repo) runOff(ctx context.Context, dir, name string, args ...string) (string, error) {
	return output(ctx, dir, append(os.Environ(), "GOWORK=off"), name, args...)
}

func output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, env
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("run %s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.String())
	}
	return string(out), nil
}

// packageDirs calls visit for each directory of the module that may hold a package. It
// leaves out other modules and the directories that the go command ignores.
func (m Module) packageDirs(visit func(dir string) error) error {
	return filepath.WalkDir(m.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.IsDir() {
			return nil
		}
		if path != m.Dir {
			name := d.Name()
			if name == "testdata" || name == "vendor" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
				return filepath.SkipDir
			}
		}
		return visit(path)
	})
}
