// Package build makes the programs of Kubernetes that the launcher runs (cmd/kubernetes,
// cmd/node and cmd/kubectl), from Go modules, and keeps them in the user's cache
// directory.
//
// From a checkout it builds the checkout's sources. A launcher that was installed or run
// as module@version builds that same version. In both cases only the Go command and its
// module proxy are needed. A binary is kept under a key of its sources and of the launcher's
// Go version, so that a change makes another binary and running clusters keep theirs.
package build

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/pintle-go/pintle/cluster/internal/state"
)

const module = "github.com/pintle-go/pintle/cluster"

// A Program is a binary with programs of Kubernetes: the main package cmd/NAME.
type Program string

// The programs. Each is built when it is first asked for.
const (
	ControlPlane Program = "kubernetes" // etcd, kube-apiserver, kube-controller-manager, kube-scheduler
	Node         Program = "node"       // kubelet, kube-proxy
	Kubectl      Program = "kubectl"
)

// Programs are all programs.
var Programs = []Program{ControlPlane, Node, Kubectl}

// title is the name of the program in messages.
func (p Program) title(version string) string {
	switch p {
	case ControlPlane:
		return "Kubernetes " + version
	case Node:
		return "kubelet and kube-proxy " + version
	default:
		return string(p) + " " + version
	}
}

// target is the program's package in this module.
func (p Program) target() string { return "cmd/" + string(p) }

// A Builder makes the programs.
type Builder struct {
	// GoMod is the cluster module's go.mod. It determines the version of Kubernetes.
	GoMod []byte
	// Output gets messages when something must be built.
	Output io.Writer
}

// Version returns the version of Kubernetes, such as v1.36.3.
func (b Builder) Version() (string, error) {
	found := regexp.MustCompile(`(?m)^\s*(?:require\s+)?k8s\.io/kubernetes (v\S+)`).FindSubmatch(b.GoMod)
	if found == nil {
		return "", errors.New("go.mod does not require k8s.io/kubernetes")
	}
	return string(found[1]), nil
}

// Program returns the path of a binary. It builds the binary first unless it is in the
// cache. Two concurrent calls build it once. If the binary is in the cache, no other
// program runs.
func (b Builder) Program(ctx context.Context, p Program) (string, error) {
	path, err := b.program(ctx, p)
	if err != nil {
		return "", fmt.Errorf("build %s: %w", p, err)
	}
	return path, nil
}

func (b Builder) program(ctx context.Context, program Program) (string, error) {
	p, err := find(ctx, "*/"+string(program), program.target(), "internal/multicall", "internal/lifeline")
	if err != nil || p.used() {
		return p.path, err
	}
	lock, err := state.Take(ctx, filepath.Join(p.cache, "build.lock"), func() {
		fmt.Fprintln(b.Output, "another build of Kubernetes is running: waiting for it")
	})
	if err != nil {
		return "", err
	}
	defer lock.Release()
	if p.used() {
		return p.path, nil
	}
	removeUnused(p.cache)
	return p.path, b.build(ctx, program, p)
}

func (b Builder) build(ctx context.Context, program Program, p place) error {
	version, err := b.Version()
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp(p.cache, "building-*")
	if err != nil {
		return fmt.Errorf("make build directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(temp) }() // if it stays, a later build's removeUnused removes it

	title := "building " + program.title(version)
	fmt.Fprintf(b.Output, "%s from %s\n", title, p.source)
	show := newProgress(b.Output, title, program.target())
	defer show.close()
	show.looking()
	run := func(more ...string) error {
		cmd := p.source.build(ctx, program, temp, append(more, "-ldflags=-s -w "+stamp(version)))
		cmd.Stderr = show
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.WaitDelay = 10 * time.Second
		err := cmd.Run()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errors.Is(err, exec.ErrNotFound) {
			return fmt.Errorf("run the go command (is Go installed and in PATH?): %w", err)
		}
		if err != nil {
			return fmt.Errorf("%s: %w\n%s", cmd.Args[:2], err, show.errors())
		}
		return nil
	}
	_ = run("-n") // the build itself reports the error
	show.compiling()
	if err := run(); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(p.path), 0o755); err != nil {
		return fmt.Errorf("make directory of binary: %w", err)
	}
	if err := os.Rename(filepath.Join(temp, string(program)), p.path); err != nil {
		return fmt.Errorf("keep binary: %w", err)
	}
	return nil
}

// stamp returns the linker flags that releases of Kubernetes set. Without them kubectl
// refuses to parse the API server's version.
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
