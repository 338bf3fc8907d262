// Package build makes the kubernetes binary (cmd/kubernetes) that the launcher
// runs, from Go modules, and keeps it in the user's cache directory.
//
// From a checkout it builds the checkout's sources. A launcher that was installed or run
// as module@version builds that same version. In both cases only the Go command and its
// module proxy are needed. A binary is kept under a key of its sources, so that a change
// makes another binary and running clusters keep theirs.
package build

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/pintle-go/pintle/cluster/internal/state"
)

const (
	module = "github.com/pintle-go/pintle/cluster"
	target = "cmd/kubernetes"
)

// A Builder makes the kubernetes binary.
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

// Kubernetes returns the path of the binary. It builds the binary first unless it is in
// the cache. Two concurrent calls build it once.
func (b Builder) Kubernetes(ctx context.Context) (string, error) {
	path, err := b.kubernetes(ctx)
	if err != nil {
		return "", fmt.Errorf("build kubernetes: %w", err)
	}
	return path, nil
}

func (b Builder) kubernetes(ctx context.Context) (string, error) {
	p, err := find(ctx, "*/kubernetes", target, "internal/lifeline")
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
	return p.path, b.build(ctx, p)
}

func (b Builder) build(ctx context.Context, p place) error {
	version, err := b.Version()
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp(p.cache, "building-*")
	if err != nil {
		return fmt.Errorf("make build directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(temp) }() // if it stays, a later build's removeUnused removes it

	cmd := p.source.build(ctx, temp, "-s -w "+stamp(version))
	show := newProgress(b.Output, "building Kubernetes "+version)
	fmt.Fprintf(
		b.Output,
		"building Kubernetes %s from %s: the first build takes minutes (about six on two cores), later ones seconds\n",
		version, p.source,
	)
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
	if err := os.MkdirAll(filepath.Dir(p.path), 0o755); err != nil {
		return fmt.Errorf("make directory of binary: %w", err)
	}
	if err := os.Rename(filepath.Join(temp, "kubernetes"), p.path); err != nil {
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
