package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"
)

// runSuites runs tests that other projects wrote. They know nothing of pintle, so they
// say whether its cluster is a Kubernetes and whether its definitions are right.
//
//	envtest      controller-runtime's own tests, on control planes that envtest starts
//	             from the cluster's binary
//	existing     some of them again, on a cluster of cluster up
//	kube-rs      kube-rs's own tests that need a cluster, on one with a node
//	definitions  crd.Of beside the definitions that other projects publish
//
// The test data of controller-tools are not among them: they are in a module of their own
// below that of controller-tools, which no module proxy serves. The definitions that other
// projects make with controller-tools stand in for them, and crd/testdata/kubebuilder.
//
// The versions are fixed. Each excluded test stands in a table with the reason, in
// suitesgo.go, suitesrust.go and suites/definitions/reasons_test.go.
func runSuites(ctx context.Context, repo *Repo, args []string) (failed error) {
	flags := flag.NewFlagSet("suites", flag.ContinueOnError)
	only := flags.String("only", "", "run only this step")
	pkg := flags.String("package", "", "run only this package of it")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s, err := newSuites(repo)
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, os.RemoveAll(s.dir)) }()
	if *pkg != "" && *only == "" {
		return errors.New("suites: -package needs -only")
	}
	known := false
	for _, step := range suiteSteps() {
		if *only != "" && *only != step.name {
			continue
		}
		known = true
		if *pkg != "" && !slices.Contains(step.packages, *pkg) {
			return fmt.Errorf("suites: %s has no package %q", step.name, *pkg)
		}
		s.step, s.only = step.name, *pkg
		fmt.Println("suites:", step.name, *pkg)
		if err := step.run(s, ctx); err != nil {
			failed = errors.Join(failed, fmt.Errorf("suites: %s: %w", step.name, err))
			if ctx.Err() != nil {
				return failed
			}
		}
	}
	if !known {
		return fmt.Errorf("suites: there is no step %q", *only)
	}
	return errors.Join(failed, s.table(os.Stdout))
}

// A suiteStep runs the tests of one project in one way.
type suiteStep struct {
	name string
	run  func(*suites, context.Context) error
	// packages can be run one by one. There are none if all run together.
	packages []string
	// takes is a usual duration of the step, or of one of its packages, when Go's caches are warm.
	takes time.Duration
}

func suiteSteps() []suiteStep {
	return []suiteStep{
		{"envtest", (*suites).envtest, packagesOf(envtestSuites()), time.Minute},
		{"existing", (*suites).existing, packagesOf(existingSuites()), 90 * time.Second},
		{"kube-rs", (*suites).kubeRS, nil, 12 * time.Minute}, // all is compiled each time
		{"definitions", (*suites).definitions, nil, time.Minute},
	}
}

// suites is one run of the suites.
type suites struct {
	runner
	repo    *Repo
	step    string
	only    string // the package of the step that is run, empty for all
	results []result
	cluster launcher
}

// A result is that of the tests of one package.
type result struct {
	step, what              string
	passed, failed, skipped int
	took                    time.Duration
}

func newSuites(repo *Repo) (*suites, error) {
	dir, err := os.MkdirTemp("", "pintle-suites-")
	if err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	s := &suites{repo: repo, runner: runner{dir: dir, env: repo.Env("GOWORK=off"), timeout: 30 * time.Minute}}
	s.cluster = launcher{
		runner:  runner{dir: repo.Dir, env: repo.Env(), timeout: 30 * time.Minute},
		program: []string{"go", "run", "./cluster"},
		state:   filepath.Join(dir, "cluster"),
	}
	return s, nil
}

// onCluster calls run with the kubeconfig of a cluster, which it starts before and ends
// afterwards.
func (s *suites) onCluster(ctx context.Context, run func(config string) error, flags ...string) (failed error) {
	defer func() { failed = errors.Join(failed, s.cluster.down(ctx)) }()
	config, err := s.cluster.up(ctx, flags...)
	if err != nil {
		return err
	}
	return run(config)
}

func (s *suites) record(r result) {
	r.step = s.step
	s.results = append(s.results, r)
}

// table prints all results. A package without a passed test is an error, because then
// nothing was tested.
func (s *suites) table(out io.Writer) error {
	var all result
	var errs []error
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "step\twhat\tpassed\tfailed\tskipped\tseconds")
	for _, r := range s.results {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%.0f\n", r.step, r.what, r.passed, r.failed, r.skipped, r.took.Seconds())
		all.passed += r.passed
		all.failed += r.failed
		all.skipped += r.skipped
		if r.passed == 0 {
			errs = append(errs, fmt.Errorf("suites: %s %s: no test has passed", r.step, r.what))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "suites: %d passed, %d failed, %d skipped\n", all.passed, all.failed, all.skipped)
	return errors.Join(errs...)
}

// An exclusion is a test that is not run.
type exclusion struct{ test, why string }

// definitions compares what crd.Of makes with what other projects publish.
func (s *suites) definitions(ctx context.Context) error {
	r, err := s.goTest(ctx, filepath.Join(s.repo.Dir, "tools", "suites", "definitions"), "./...")
	s.record(r)
	return err
}
