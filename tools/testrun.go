package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/mod/modfile"
)

// gotestsum shows the tests and runs failed ones again.
const gotestsum = "gotest.tools/gotestsum@v1.13.0"

// errTold is the error of a check whose findings are printed already.
var errTold = errors.New("the findings are above")

// runTests tests the named packages of the workspace, and beside that modules outside the
// workspace. A test that fails runs again, alone, after all others have ended: at most twice,
// and only if at most ten have failed. See verdict for the failures that are final. Every 15
// seconds it prints how far the tests are.
//
// First it compiles everything that the tests need, with all processors. Then it tests
// one package of the workspace more at a time than there are processors, because one often
// waits: for pods, for leases, or for another package that has the machine's only real
// node. The slowest packages begin first, or the run would end with one of them alone. The
// other modules have one package at a time, one module after the other. They have make lint's flags,
// so that what they need is compiled once. Tests named TestSoak are left out: make soak runs them. So
// is go vet, which make lint runs.
//
// No result is taken from the cache of go test: many tests build and start programs of
// which the go command knows nothing.
func runTests(ctx context.Context, repo *Repo, args []string) error {
	run := testRun{compile: true, reruns: true, out: os.Stdout}
	flags := flag.NewFlagSet("test", flag.ContinueOnError)
	race := flags.Bool("race", false, "use the race detector for the named packages")
	timeout := flags.Duration("timeout", time.Hour, "time limit of one package")
	flags.Func("beside", "`directory` of a module outside the workspace, relative to the repository; may be repeated",
		func(dir string) error {
			env := []string{"GOWORK=off"}
			if dir != "tools" { // its tests read Go's own sources, whose place -trimpath hides
				env = append(env, clusterFlags...)
			}
			run.batches = append(run.batches, batch{
				Dir: filepath.Join(repo.Dir, dir), Env: env,
				Flags: []string{"-p=1"}, Packages: []string{"./..."}, Skip: "^TestSoak",
			})
			return nil
		})
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("run tests: no packages are named")
	}
	parallel := "-p=" + strconv.Itoa(runtime.NumCPU()+1)
	run.batches = slices.Insert(run.batches, 0, workspaceBatch(repo, *race, slowestFirst(flags.Args()), parallel))
	run.batches[0].Skip = "^TestSoak"
	for i := range run.batches {
		run.batches[i].Flags = append(run.batches[i].Flags, "-timeout="+timeout.String())
	}
	_, err := run.run(ctx)
	return err
}

// A batch is one call of go test.
type batch struct {
	Dir      string
	Env      []string // besides the user's environment
	Build    []string // flags for the compiler
	Flags    []string // flags of go test besides
	Skip     string   // pattern of tests that do not run
	Packages []string
	Args     []string // flags of the test programs
}

// workspaceBatch returns a batch of the workspace. With -trimpath, two checkouts share the
// compiled packages. The race detector is written in C.
func workspaceBatch(repo *Repo, race bool, packages []string, flags ...string) batch {
	b := batch{Dir: repo.Dir, Build: []string{"-trimpath"}, Flags: flags, Packages: packages}
	if race {
		b.Build, b.Env = append(b.Build, "-race"), []string{"CGO_ENABLED=1"}
	}
	return b
}

// test returns the arguments that test packages; with skip, without these tests too.
func (b batch) test(packages []string, skip ...string) []string {
	args := slices.Concat([]string{"test", "-json", "-vet=off", "-count=1"}, b.Build, b.Flags)
	var patterns []string
	if b.Skip != "" {
		patterns = []string{b.Skip}
	}
	for _, name := range skip {
		patterns = append(patterns, "^"+regexp.QuoteMeta(name)+"$")
	}
	if len(patterns) > 0 {
		args = append(args, "-skip="+strings.Join(patterns, "|"))
	}
	return slices.Concat(args, packages, b.Args)
}

// command returns a go command. An interrupt is passed on: the tests stop the processes that
// they started. Garbage is collected a quarter as often as by default, here and in the API servers
// that the tests start, which would otherwise spend a quarter of their processor time on it.
func (b batch) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stderr = b.Dir, os.Stderr
	cmd.Env = append(userEnv(), "GOGC="+cmp.Or(os.Getenv("GOGC"), "400"))
	cmd.Env = append(cmd.Env, b.Env...)
	return interrupted(cmd)
}

func interrupted(cmd *exec.Cmd) *exec.Cmd {
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	return cmd
}

// compile compiles the packages, their tests, and all imports of both. It counts them.
func (b batch) compile(ctx context.Context, count *atomic.Int64) error {
	list := slices.Concat([]string{"list", "-export", "-deps", "-test", "-v", "-f="}, b.Build, b.Packages)
	cmd := b.command(ctx, list...)
	cmd.Stderr = &lineWriter{line: func(line []byte) {
		if packageName.Match(line) {
			count.Add(1)
		} else {
			_, _ = os.Stderr.Write(line)
		}
	}}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("compile the tests in %s: %w", b.Dir, err)
	}
	return nil
}

// packageName matches a line in which go list -v names a package that it compiles.
var packageName = regexp.MustCompile(`^[\w.~/-]+( \[[\w.~/-]+\])?\n$`)

// A testRun is one run of gotestsum.
type testRun struct {
	batches []batch
	compile bool   // compile all tests first
	reruns  bool   // run failed tests again
	events  string // a file for the report, or "" for a temporary one
	out     *os.File
}

// run runs the tests, prints the verdict and returns it.
func (t testRun) run(ctx context.Context) (verdict, error) {
	begun := time.Now()
	dir, err := os.MkdirTemp("", "pintle-test-")
	if err != nil {
		return verdict{}, fmt.Errorf("run tests: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	t.events = cmp.Or(t.events, filepath.Join(dir, "events.json"))
	r, compiled, follow := newTestReport(), &atomic.Int64{}, &follower{path: t.events}
	var mu sync.Mutex // of the report
	stop := every(15*time.Second, func() {
		mu.Lock()
		defer mu.Unlock()
		follow.read(r)
		text := r.progress(time.Now())
		if t.compile && len(r.runs) == 0 {
			text = fmt.Sprintf("compiling the tests; %d packages are compiled", compiled.Load())
		}
		fmt.Fprintf(t.out, "test: %.0f s: %s\n", time.Since(begun).Seconds(), text)
	})
	defer stop()
	if t.compile {
		fmt.Fprintln(t.out, "test: compiling the tests")
		for _, b := range t.batches {
			if err := b.compile(ctx, compiled); err != nil {
				return verdict{}, err
			}
		}
	}
	failed := t.gotestsum(ctx, dir)
	read := func() verdict {
		mu.Lock()
		defer mu.Unlock()
		follow.read(r)
		return judge(r)
	}
	v := read()
	if !v.lost() && ctx.Err() == nil {
		failed = errors.Join(failed, t.testRest(ctx, v.rest))
		v = read()
	}
	stop()
	if failed != nil && v.ok() {
		v.final = append(v.final, finding{why: failed.Error()})
	}
	v.print(t.out, time.Since(begun))
	if !v.ok() {
		return v, errTold
	}
	return v, nil
}

// gotestsum runs all tests and runs failed ones again. It calls this program for go test,
// which can test several modules at a time.
func (t testRun) gotestsum(ctx context.Context, dir string) error {
	install := interrupted(exec.CommandContext(ctx, "go", "install", gotestsum))
	install.Env, install.Stderr = append(os.Environ(), "GOBIN="+dir, "CGO_ENABLED=0"), os.Stderr
	if err := install.Run(); err != nil {
		return fmt.Errorf("install %s: %w", gotestsum, err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	batches, err := json.Marshal(t.batches)
	if err != nil {
		return fmt.Errorf("encode batches: %w", err)
	}
	args := []string{"--raw-command", "--jsonfile=" + t.events, "--format=pkgname-and-test-fails", "--hide-summary=failed"}
	if t.reruns {
		args = append(args, "--rerun-fails=2", "--rerun-fails-max-failures=10", "--rerun-fails-run-root-test",
			"--rerun-fails-abort-on-data-race")
	}
	args = append(args, "--", self, "gotest", string(batches))
	cmd := interrupted(exec.CommandContext(ctx, filepath.Join(dir, "gotestsum"), args...))
	cmd.Stdout, cmd.Stderr = t.out, t.out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run gotestsum: %w", err)
	}
	return nil
}

// testRest tests whole packages without the tests that ran again, and adds to the report.
func (t testRun) testRest(ctx context.Context, rest map[string][]string) error {
	file, err := os.OpenFile(t.events, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("open report: %w", err)
	}
	defer file.Close()
	for pkg, names := range rest {
		fmt.Fprintf(t.out, "test: the other tests of %s run again: when %s failed, no proof was left that they do not leak\n",
			short(pkg), strings.Join(names, ", "))
		b := of(t.batches, pkg)
		cmd := b.command(ctx, b.test([]string{pkg}, names...)...)
		cmd.Stdout = file
		var exit *exec.ExitError
		if err := cmd.Run(); err != nil && !errors.As(err, &exit) { // the report tells more than a status
			return fmt.Errorf("run go test: %w", err)
		}
	}
	return nil
}

// goTest is the command that gotestsum calls. It runs all batches: the first beside the others,
// which run one after the other. If gotestsum adds a test and its package, it runs this test.
func goTest(ctx context.Context, _ *Repo, args []string) error {
	var batches []batch
	if err := json.Unmarshal([]byte(args[0]), &batches); err != nil {
		return fmt.Errorf("decode batches: %w", err)
	}
	if len(args) == 3 {
		b := of(batches, args[2])
		b.Flags = slices.DeleteFunc(b.Flags, func(flag string) bool { return strings.HasPrefix(flag, "-run=") })
		b.Flags, b.Packages = append(b.Flags, args[1]), args[2:]
		batches = []batch{b}
	}
	if !testAll(ctx, batches, os.Stdout) {
		return errTold // gotestsum takes a text for an error of the compiler
	}
	return nil
}

// testAll runs all batches and reports whether all tests have passed.
func testAll(ctx context.Context, batches []batch, out io.Writer) bool {
	var mu sync.Mutex
	write := func(line []byte) { // a line of one module never stands inside one of another
		mu.Lock()
		defer mu.Unlock()
		_, _ = out.Write(line)
	}
	var failed atomic.Bool
	var ended sync.WaitGroup
	for _, chain := range [][]batch{batches[:1], batches[1:]} {
		ended.Go(func() {
			for _, b := range chain {
				cmd := b.command(ctx, b.test(b.Packages)...)
				cmd.Stdout = &lineWriter{line: write}
				if cmd.Run() != nil {
					failed.Store(true)
				}
			}
		})
	}
	ended.Wait()
	return !failed.Load()
}

// of returns the batch whose module has the package. The first has the workspace.
func of(batches []batch, pkg string) batch {
	for _, b := range batches[1:] {
		data, err := os.ReadFile(filepath.Join(b.Dir, "go.mod"))
		if module := modfile.ModulePath(data); err == nil && (pkg == module || strings.HasPrefix(pkg, module+"/")) {
			return b
		}
	}
	return batches[0]
}

// slow are the packages whose tests take longest, the slowest first. Those with a real
// node, which have to wait for each other, are apart: the first begins at once, and Echo's
// and Foo's when it has ended. Neon's is in another run, and begins at once too: it mostly
// waits, and beside two heavy ones its steps do not take minutes.
var slow = []string{
	"cluster/internal/realnode", "aggregate", "operators/neon/e2e", "operators/neon", "operators/neon/internal/cluster",
	"plan", "cluster", "kube", "operators/neon/internal/endpoint", "operators/neon/internal/branch", "controller",
	"operators/echo", "operators/shop", "operators/foo", "lease", "operators/farm", "crd", "certificate",
}

// slowestFirst returns the packages in the order in which their tests begin.
func slowestFirst(packages []string) []string {
	rank := func(pkg string) int {
		i := slices.Index(slow, short(pkg))
		if i < 0 {
			return len(slow)
		}
		return i
	}
	return slices.SortedStableFunc(slices.Values(packages), func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
}

// A follower reads a file that grows.
type follower struct {
	path string
	at   int64
}

// read adds the new complete lines to the report. A file that does not exist yet is empty.
func (f *follower) read(r *testReport) {
	file, err := os.Open(f.path)
	if err != nil {
		return
	}
	defer file.Close()
	data, err := io.ReadAll(io.NewSectionReader(file, f.at, 1<<62))
	if err == nil {
		f.at += int64(len(data) - len(r.addAll(data)))
	}
}

// A lineWriter calls a function with each complete line.
type lineWriter struct {
	line func(line []byte)
	rest []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		i := bytes.IndexByte(w.rest, '\n')
		if i < 0 {
			return len(p), nil
		}
		w.line(w.rest[:i+1])
		w.rest = w.rest[i+1:]
	}
}

// every calls f again and again until the returned function is called. That function
// waits for a call in progress.
func every(d time.Duration, f func()) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() {
		for ticker := time.NewTicker(d); ; {
			select {
			case <-ctx.Done():
				ticker.Stop()
				return
			case <-ticker.C:
				f()
			}
		}
	})
	return func() {
		cancel()
		ended.Wait()
	}
}
