package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// These are releases of the Kubernetes modules that strangers may use. One is the release
// that our modules require. The other is a newer one, to which a consumer's own go.mod
// may raise them.
const (
	kubernetes      = "v0.36.3"
	newerKubernetes = "v0.37.2"
)

// A stranger is a directory outside the repository. From there the modules are used as a
// user of them would: by version, through a module proxy, with no workspace and an empty
// module cache.
//
// It has module caches of its own, for go and for the launcher, because the packed
// version never changes while its content does. The former fills from the usual cache,
// read as a proxy, and so without the network. The build cache is shared. Because
// everything is built with -trimpath, it has the packages that were compiled for the
// workspace.
type stranger struct {
	repo   *Repo
	dir    string
	runner runner
}

func checkStranger(ctx context.Context, repo *Repo, args []string) (failed error) {
	flags := flag.NewFlagSet("stranger", flag.ContinueOnError)
	only := flags.String("only", "", "run only this step")
	keep := flags.Bool("keep", false, "keep the directory")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s, err := newStranger(ctx, repo)
	if err != nil {
		return err
	}
	if *keep {
		fmt.Println("stranger: directory is", s.dir)
	} else {
		defer func() { failed = errors.Join(failed, s.remove(ctx)) }()
	}
	steps := []struct {
		name string
		run  func(context.Context) error
	}{
		{"build", s.build},
		{"newer", s.newer},
		{"launch", s.launch},
		{"kubetest", s.kubetest},
		{"tutorial", s.tutorial},
	}
	known := false
	for _, step := range steps {
		if *only != "" && *only != step.name {
			continue
		}
		known = true
		fmt.Printf("stranger: %s\n", step.name)
		begun := time.Now()
		if err := step.run(ctx); err != nil {
			return fmt.Errorf("stranger: %s: %w", step.name, err)
		}
		fmt.Printf("stranger: %s ok in %.0f s\n", step.name, time.Since(begun).Seconds())
	}
	if !known {
		return fmt.Errorf("stranger: there is no step %q", *only)
	}
	return nil
}

func newStranger(ctx context.Context, repo *Repo) (*stranger, error) {
	dir, err := os.MkdirTemp("", "pintle-stranger-")
	if err != nil {
		return nil, fmt.Errorf("make directory for a stranger: %w", err)
	}
	proxy := filepath.Join(dir, "proxy")
	if err := pack(ctx, repo, proxy); err != nil {
		return nil, err
	}
	out, err := repo.output(ctx, repo.Dir, "go", "env", "GOPROXY", "GOMODCACHE", "GOCACHE")
	if err != nil {
		return nil, fmt.Errorf("read Go's settings: %w", err)
	}
	usual := strings.Fields(out)
	return &stranger{repo: repo, dir: dir, runner: runner{
		dir:     dir,
		timeout: 20 * time.Minute,
		env: append(os.Environ(),
			"GOWORK=off",
			"GOPROXY=file://"+proxy+",file://"+filepath.Join(usual[1], "cache", "download")+","+usual[0],
			"GONOSUMDB="+prefix+","+prefix+"/*", // unpublished, so in no checksum database
			"GOMODCACHE="+filepath.Join(dir, "mod"),
			"GOCACHE="+usual[2],
			"XDG_CACHE_HOME="+filepath.Join(dir, "cache"), // for the builds of the launcher
			"PINTLE_HOME="+filepath.Join(dir, "home"),
			"GOFLAGS=-trimpath",
			"CGO_ENABLED=0",
			"GOBIN="+filepath.Join(dir, "bin"),
		),
	}}, nil
}

// remove deletes the directory. Only the go command can delete a module cache, which is
// read-only.
func (s *stranger) remove(ctx context.Context) error {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "go", "clean", "-modcache")
	cmd.Dir, cmd.Env = s.dir, s.runner.env
	return errors.Join(cmd.Run(), os.RemoveAll(s.dir))
}

// module makes a module outside the repository and returns a runner in it.
func (s *stranger) module(ctx context.Context, name string, files map[string]string) (runner, error) {
	in := s.runner
	in.dir = filepath.Join(s.dir, name)
	if err := os.MkdirAll(in.dir, 0o755); err != nil {
		return in, fmt.Errorf("make module: %w", err)
	}
	if err := writeFiles(in.dir, files); err != nil {
		return in, err
	}
	return in, in.run(ctx, "go", "mod", "init", "example.com/"+name)
}

// build uses every package of every module, one module at a time.
func (s *stranger) build(ctx context.Context) error {
	for _, m := range s.repo.Modules {
		in, err := s.module(ctx, "build-"+m.Name(), nil)
		if err != nil {
			return err
		}
		if err := in.run(ctx, "go", "get", m.Path+"@"+packed); err != nil {
			return err
		}
		if err := s.use(ctx, in, m, kubernetes); err != nil {
			return err
		}
		if err := s.install(ctx, in, m); err != nil {
			return err
		}
	}
	return nil
}

// newer uses the root module with a newer release of the Kubernetes modules.
func (s *stranger) newer(ctx context.Context) error {
	in, err := s.module(ctx, "newer", nil)
	if err != nil {
		return err
	}
	want := []string{"get", prefix + "@" + packed}
	for _, m := range []string{"api", "apimachinery", "client-go"} {
		want = append(want, "k8s.io/"+m+"@"+newerKubernetes)
	}
	if err := in.run(ctx, "go", want...); err != nil {
		return err
	}
	return s.use(ctx, in, s.repo.Modules[0], newerKubernetes)
}

// packagesOf lists the packages of a module that are named main, or the importable ones
// that are not.
func (s *stranger) packagesOf(ctx context.Context, in runner, m Module, main bool) ([]string, error) {
	cmd := exec.CommandContext(
		ctx, "go", "list", "-mod=mod", "-e", "-f", "{{.Name}} {{.ImportPath}} {{.Module.Path}}", m.Path+"/...",
	)
	cmd.Dir, cmd.Env, cmd.Stderr = in.dir, in.env, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list packages of %s: %w", m.Path, err)
	}
	var paths []string
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) != 3 || f[2] != m.Path || (f[0] == "main") != main {
			continue
		}
		if !main && slices.Contains(strings.Split(f[1], "/"), "internal") {
			continue
		}
		paths = append(paths, f[1])
	}
	return paths, nil
}

// use writes and builds a program that imports every package of a module. It checks that
// the program has the intended release of Kubernetes.
func (s *stranger) use(ctx context.Context, in runner, m Module, release string) error {
	paths, err := s.packagesOf(ctx, in, m, false)
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		fmt.Printf("%s has no package to import\n", m.Path)
		return nil
	}
	var source strings.Builder
	source.WriteString("package main\n\nimport (\n")
	for _, path := range paths {
		fmt.Fprintf(&source, "\t_ %q\n", path)
	}
	source.WriteString(")\n\nfunc main() {}\n")
	if err := os.WriteFile(filepath.Join(in.dir, "main.go"), []byte(source.String()), 0o644); err != nil {
		return fmt.Errorf("write program: %w", err)
	}
	if err := in.run(ctx, "go", "build", "-mod=mod", "-o", "consumer", "."); err != nil {
		return err
	}
	out, err := in.runUntil(ctx, "", "go", "list", "-m", "k8s.io/api")
	if err != nil {
		return err
	}
	if got := strings.TrimSpace(out); got != "k8s.io/api "+release {
		return fmt.Errorf("built with %s, want %s", got, release)
	}
	return nil
}

// install installs the module's programs by version, with exceptions: the launcher builds
// the programs that link Kubernetes itself, and the tutorial builds a copy of the template.
func (s *stranger) install(ctx context.Context, in runner, m Module) error {
	paths, err := s.packagesOf(ctx, in, m, true)
	if err != nil {
		return err
	}
	for _, path := range paths {
		if strings.Contains(path, "/cluster/cmd/") || strings.HasSuffix(path, "/cmd/pintle/template") {
			continue
		}
		if err := in.run(ctx, "go", "install", path+"@"+packed); err != nil {
			return err
		}
	}
	return nil
}

// launch runs a cluster by version, from a directory without a module. Where possible the
// cluster has a real node, whose images come by version too.
func (s *stranger) launch(ctx context.Context) (failed error) {
	l := launcher{
		runner:  s.runner,
		program: []string{"go", "run", prefix + "/cluster@" + packed},
		state:   filepath.Join(s.dir, "cluster"),
	}
	defer func() { failed = errors.Join(failed, l.down(ctx)) }()
	var node []string
	if missing := lacksRealNode(); missing == "" {
		node = append(node, "--node=real")
	} else {
		fmt.Printf("stranger: without a real node: %s\n", missing)
	}
	if _, err := l.up(ctx, node...); err != nil {
		return err
	}
	if err := l.command(ctx, "status"); err != nil {
		return err
	}
	// The cluster has the simulated node and perhaps the real node. The command up has
	// waited for the real node.
	return l.command(ctx, "kubectl", "get", "nodes")
}

// lacksRealNode returns the reason why no real node is requested. The launcher reports
// everything else that a real node lacks.
func lacksRealNode() string {
	switch {
	case os.Getenv("PINTLE_REQUIRE_REAL_NODE") == "1":
		return ""
	case runtime.GOOS != "linux" || os.Geteuid() != 0:
		return "it needs Linux and root"
	}
	for _, program := range []string{"containerd", "nft", "iptables"} {
		if _, err := exec.LookPath(program); err != nil {
			return "there is no " + program
		}
	}
	return ""
}

// kubetest runs a test that starts a cluster, in a stranger's module.
func (s *stranger) kubetest(ctx context.Context) error {
	in, err := s.module(ctx, "kubetest", map[string]string{"stranger_test.go": strangerTest})
	if err != nil {
		return err
	}
	if err := in.run(ctx, "go", "get", prefix+"/kubetest@"+packed); err != nil {
		return err
	}
	return in.run(ctx, "go", "test", "-mod=mod", "-count=1", "-v", "-timeout=15m", "./...")
}
