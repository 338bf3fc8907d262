package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// runTests runs go test on the named packages and shows the progress: each ended test,
// all output of a failing test, and the reason for a skipped one. During silence it shows
// the running tests.
//
// First it compiles everything that the tests need, with all processors. Then it tests
// one package more at a time than there are processors, because one often waits: for pods,
// for leases, or for another package that has the machine's only real node. The slowest
// packages begin first, or the run would end with one of them alone. Tests named TestSoak
// are left out: make soak runs them.
func runTests(ctx context.Context, repo *Repo, args []string) error {
	flags := flag.NewFlagSet("test", flag.ContinueOnError)
	race := flags.Bool("race", false, "use the race detector")
	dir := flags.String("dir", ".", "where to run go test, relative to the repository")
	timeout := flags.Duration("timeout", 30*time.Minute, "time limit of one package")
	if err := flags.Parse(args); err != nil {
		return err
	}
	packages := flags.Args()
	if len(packages) == 0 {
		return errors.New("run tests: no packages are named")
	}
	env := userEnv()
	build := []string{"build"}
	atOnce := strconv.Itoa(runtime.NumCPU() + 1)
	test := []string{"test", "-json", "-timeout=" + timeout.String(), "-p=" + atOnce, "-skip=^TestSoak"}
	if *race { // the race detector is written in C
		env = append(env, "CGO_ENABLED=1")
		build = append(build, "-race")
		test = append(test, "-race")
	}
	if *dir != "." { // a module outside the workspace
		env = append(env, "GOWORK=off")
	}
	t := tester{dir: filepath.Join(repo.Dir, *dir), env: env}
	if err := t.compile(ctx, build, packages); err != nil {
		return err
	}
	return t.test(ctx, append(test, slowestFirst(packages)...))
}

// slow are the packages whose tests take longest, the slowest first. Those with a real
// node, which have to wait for each other, are apart.
var slow = []string{
	"cluster/internal/realnode", "kube", "cluster", "operators/shop", "controller", "operators/echo", "lease", "crd",
	"operators/cmd/run", "operators/foo", "cluster/internal/simulate", "cluster/internal/supervisor", "kubetest",
}

// slowestFirst returns the packages in the order in which their tests begin.
func slowestFirst(packages []string) []string {
	rank := func(pkg string) int {
		i := slices.Index(slow, strings.TrimPrefix(pkg, prefix+"/"))
		if i < 0 {
			return len(slow)
		}
		return i
	}
	return slices.SortedStableFunc(slices.Values(packages), func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
}

type tester struct {
	dir string
	env []string
}

func (t tester) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env, cmd.Stderr = t.dir, t.env, os.Stderr
	// go test passes an interrupt on and waits for the tests, which stop the processes
	// that they started.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	return cmd
}

// compile compiles all imports of the packages and of their tests. It leaves out packages
// that contain only tests, because go build refuses them.
func (t tester) compile(ctx context.Context, build, packages []string) error {
	list := append([]string{
		"list",
		"-deps",
		"-test",
		"-f",
		`{{if and (not .ForTest) (ne .Name "main") (ne .ImportPath "unsafe") (or .GoFiles .CgoFiles)}}{{.ImportPath}}{{end}}`,
	}, packages...)
	out, err := t.command(ctx, list...).Output()
	if err != nil {
		return fmt.Errorf("list the packages that the tests need: %w", err)
	}
	needed := strings.Fields(string(out))
	fmt.Printf("test: compiling %d packages that the tests need\n", len(needed))
	begun := time.Now()
	stop := every(15*time.Second, func() {
		fmt.Printf("test: still compiling, %.0f s\n", time.Since(begun).Seconds())
	})
	defer stop()
	if err := t.command(ctx, append(build, needed...)...).Run(); err != nil {
		return fmt.Errorf("compile the packages that the tests need: %w", err)
	}
	return nil
}

// test runs go test and shows its events.
func (t tester) test(ctx context.Context, args []string) error {
	fmt.Printf("test: go %s\n", strings.Join(args, " "))
	cmd := t.command(ctx, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("run go test: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("run go test: %w", err)
	}
	p := newProgress(os.Stdout)
	stop := every(15*time.Second, p.waiting)
	err = p.read(out)
	stop()
	err = errors.Join(err, cmd.Wait())
	p.summary()
	if err != nil {
		return fmt.Errorf("run go test: %w", err)
	}
	return nil
}

// every calls f again and again until the returned function is called. That function
// waits for a call in progress.
func every(d time.Duration, f func()) (stop func()) {
	ticker := time.NewTicker(d)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				f()
			}
		}
	}()
	return func() {
		ticker.Stop()
		close(done)
		<-ended
	}
}
