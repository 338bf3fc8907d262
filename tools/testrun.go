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
	"sync"
	"time"
)

// runTests runs go test on the named packages of the workspace, and beside that on modules
// outside the workspace. It shows the progress: each ended test, all output of a failing
// test, and the reason for a skipped one. During silence it shows the running tests.
//
// First it compiles everything that the tests need, with all processors. Then it tests
// one package of the workspace more at a time than there are processors, because one often
// waits: for pods, for leases, or for another package that has the machine's only real
// node. The slowest packages begin first, or the run would end with one of them alone. The
// other modules have one package at a time, one module after the other. Tests named
// TestSoak are left out: make soak runs them. So is go vet, which make lint runs.
//
// No result is taken from the cache of go test: many tests build and start programs of
// which the go command knows nothing.
//
// A few tests that failed at a deadline run again, alone: see runLateAgain.
func runTests(ctx context.Context, repo *Repo, args []string) error {
	var beside []string
	flags := flag.NewFlagSet("test", flag.ContinueOnError)
	race := flags.Bool("race", false, "use the race detector for the named packages")
	timeout := flags.Duration("timeout", 30*time.Minute, "time limit of one package")
	flags.Func("beside", "`directory` of a module outside the workspace, relative to the repository; may be repeated",
		func(dir string) error {
			beside = append(beside, dir)
			return nil
		})
	if err := flags.Parse(args); err != nil {
		return err
	}
	packages := slowestFirst(flags.Args())
	if len(packages) == 0 {
		return errors.New("run tests: no packages are named")
	}
	common := []string{"-json", "-vet=off", "-count=1", "-timeout=" + timeout.String(), "-skip=^TestSoak"}
	first := batch{
		tester: tester{dir: repo.Dir, env: testEnv()},
		build:  []string{"-trimpath"},
		// With -trimpath, two checkouts share what they compile.
		flags:    append([]string{"-trimpath", "-p=" + strconv.Itoa(runtime.NumCPU()+1)}, common...),
		packages: packages,
	}
	if *race { // the race detector is written in C
		first.env = append(first.env, "CGO_ENABLED=1")
		first.build = append(first.build, "-race")
		first.flags = append(first.flags, "-race")
	}
	var others []batch
	for _, dir := range beside {
		others = append(others, batch{
			tester:   tester{dir: filepath.Join(repo.Dir, dir), env: append(testEnv(), "GOWORK=off")},
			flags:    append([]string{"-p=1"}, common...),
			packages: []string{"./..."},
		})
	}
	for _, b := range append([]batch{first}, others...) {
		if err := b.compile(ctx, append([]string{"build"}, b.build...), b.packages); err != nil {
			return err
		}
	}
	p := newProgress(os.Stdout)
	var ended sync.WaitGroup
	var firstErr, othersErr error
	ended.Go(func() { firstErr = first.run(ctx, p) })
	ended.Go(func() {
		for _, b := range others {
			othersErr = errors.Join(othersErr, b.run(ctx, p))
		}
	})
	stop := every(15*time.Second, p.waiting)
	ended.Wait()
	stop()
	err := errors.Join(firstErr, othersErr)
	if err != nil && ctx.Err() == nil && p.onlyLate() {
		err = runLateAgain(ctx, p, append([]batch{first}, others...))
	}
	p.summary()
	return err
}

// testEnv returns the environment of tests. Garbage is collected half as often as by default, here
// and in the API servers that the tests start, which would otherwise spend a quarter of
// their processor time on it.
func testEnv() []string {
	if os.Getenv("GOGC") != "" {
		return userEnv()
	}
	return append(userEnv(), "GOGC=200")
}

// A batch is one call of go test.
type batch struct {
	tester
	build    []string // flags of go build that the tests are compiled with
	flags    []string // flags of go test, which include those of build
	packages []string
}

func (b batch) run(ctx context.Context, p *progress) error {
	return b.show(ctx, p, slices.Concat([]string{"test"}, b.flags, b.packages))
}

// slow are the packages whose tests take longest, the slowest first. Those with a real
// node, which have to wait for each other, are apart: the first begins at once, and Echo's
// and Foo's when it has ended. Neon's is in another run, and begins at once too: it mostly waits, and
// beside two heavy ones its steps do not take minutes.
var slow = []string{
	"cluster/internal/realnode", "operators/neon/e2e", "operators/neon", "kube", "operators/neon/internal/cluster", "plan",
	"operators/neon/internal/endpoint", "operators/neon/internal/branch", "aggregate", "operators/echo", "operators/shop",
	"operators/foo", "cluster", "certificate", "controller", "lease", "crd", "operators/neon/internal/standin/compute",
	"operators/cmd/run", "kubetest", "operators/farm",
	"cluster/image", "cluster/internal/supervisor", "operators/letter", "operators/book", "cluster/internal/simulate",
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

// test runs go test, shows its events, and counts its tests. If a few tests failed at a
// deadline, all run again: see runLateAgain.
func (t tester) test(ctx context.Context, args []string) error {
	run := func() (*progress, error) {
		p := newProgress(os.Stdout)
		stop := every(15*time.Second, p.waiting)
		defer stop()
		return p, t.show(ctx, p, args)
	}
	p, err := run()
	if err != nil && ctx.Err() == nil && p.onlyLate() {
		late := p.failed
		p, err = run()
		p.late = late
	}
	p.summary()
	return err
}

// show runs go test and shows its events.
func (t tester) show(ctx context.Context, p *progress, args []string) error {
	fmt.Printf("test: go %s\n", strings.Join(args, " "))
	cmd := t.command(ctx, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("run go test: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("run go test: %w", err)
	}
	if err := errors.Join(p.read(out), cmd.Wait()); err != nil {
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
