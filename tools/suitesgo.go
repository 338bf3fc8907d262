package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// controllerRuntime is the module whose tests are run.
const (
	controllerRuntime        = "sigs.k8s.io/controller-runtime"
	controllerRuntimeVersion = "v0.25.2"
	controllerRuntimeSum     = "h1:bEkK3PVOIVK9X8QWLGVhJgmFc++47vfT6wakSzAOLsQ="
)

// A ginkgoSuite is the test of one package.
type ginkgoSuite struct {
	pkg string
	// without excludes specs. A test is a regular expression that matches a spec's full
	// text.
	without []exclusion
}

// envtestSuites are run on control planes that envtest starts. Other packages of
// controller-runtime that use envtest are left out to save time.
func envtestSuites() []ginkgoSuite {
	return []ginkgoSuite{
		{pkg: "pkg/builder"},
		{pkg: "pkg/client"},
		{pkg: "pkg/controller"},
		{pkg: "pkg/envtest"},
		{pkg: "pkg/manager", without: []exclusion{
			{"should serve pprof endpoints", "it takes 30 seconds and does not use the cluster"},
		}},
		{pkg: "pkg/webhook"},
	}
}

// existingSuites are run on a cluster of cluster up. They change any Deployment, Node and
// Pod as if there were no controllers, and count all objects of a kind. So the cluster
// has no controllers and no nodes, and each suite has a cluster of its own.
func existingSuites() []ginkgoSuite {
	return []ginkgoSuite{
		{pkg: "pkg/builder"},
		{pkg: "pkg/cache"},
		{pkg: "pkg/client"},
		{pkg: "pkg/webhook"},
	}
}

// packagesOf returns the packages of some suites.
func packagesOf(all []ginkgoSuite) (packages []string) {
	for _, suite := range all {
		packages = append(packages, suite.pkg)
	}
	return packages
}

// envtest runs controller-runtime's tests on control planes that envtest starts from the
// cluster's binary, one for each package.
func (s *suites) envtest(ctx context.Context) error {
	out, err := s.repo.output(ctx, s.repo.Dir, "go", "run", "./cluster", "assets")
	if err != nil {
		return err
	}
	return s.ginkgo(ctx, envtestSuites(), "KUBEBUILDER_ASSETS="+strings.TrimSpace(out),
		"KUBEBUILDER_CONTROLPLANE_START_TIMEOUT=60s", "KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT=60s")
}

// existing runs them on a cluster that runs already.
func (s *suites) existing(ctx context.Context) error {
	var errs []error
	for _, suite := range existingSuites() {
		if s.leavesOut(suite) {
			continue
		}
		if err := s.onCluster(ctx, func(config string) error {
			return s.ginkgo(ctx, []ginkgoSuite{suite}, "USE_EXISTING_CLUSTER=true", "KUBECONFIG="+config)
		}, "--controllers=false", "--nodes=0"); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// leavesOut reports whether another package alone is run.
func (s *suites) leavesOut(suite ginkgoSuite) bool { return s.only != "" && suite.pkg != s.only }

func (s *suites) ginkgo(ctx context.Context, all []ginkgoSuite, env ...string) error {
	dir, err := s.module(ctx, controllerRuntime, controllerRuntimeVersion, controllerRuntimeSum)
	if err != nil {
		return err
	}
	var errs []error
	for _, suite := range all {
		if s.leavesOut(suite) {
			continue
		}
		r, err := suite.run(ctx, runner{dir: dir, env: append(s.env, env...), timeout: 10 * time.Minute})
		s.record(r)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// module copies a module to a directory that tests may write to.
func (s *suites) module(ctx context.Context, path, version, sum string) (string, error) {
	copied := filepath.Join(s.dir, strings.ReplaceAll(path, "/", "-")+"@"+version)
	if _, err := os.Stat(copied); err == nil {
		return copied, nil
	}
	out, err := output(ctx, s.dir, s.env, "go", "mod", "download", "-json", path+"@"+version)
	if err != nil {
		return "", fmt.Errorf("download %s: %w", path, err)
	}
	var got struct{ Dir, Sum string }
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		return "", fmt.Errorf("download %s: %w", path, err)
	}
	if got.Sum != sum {
		return "", fmt.Errorf("download %s: its checksum is %s, want %s", path, got.Sum, sum)
	}
	if err := os.CopyFS(copied, os.DirFS(got.Dir)); err != nil {
		return "", fmt.Errorf("copy %s: %w", path, err)
	}
	return copied, nil
}

// run runs the specs of a package.
func (g ginkgoSuite) run(ctx context.Context, in runner) (result, error) {
	r := result{what: g.pkg}
	begun := time.Now()
	report := filepath.Join(in.dir, "report.json")
	args := []string{
		"test", "-count=1", "-vet=off", "-timeout=9m", "./" + g.pkg, "-ginkgo.no-color", "-ginkgo.json-report=" + report,
	}
	for _, e := range g.without {
		args = append(args, "-ginkgo.skip="+e.test)
	}
	failed := in.run(ctx, "go", args...)
	r.took = time.Since(begun)
	data, err := os.ReadFile(report)
	if err != nil {
		return r, errors.Join(failed, fmt.Errorf("read report of %s: %w", g.pkg, err))
	}
	if err := os.Remove(report); err != nil {
		return r, errors.Join(failed, err)
	}
	specs, err := readSpecs(data)
	if err != nil {
		return r, errors.Join(failed, fmt.Errorf("read report of %s: %w", g.pkg, err))
	}
	return r, errors.Join(failed, g.count(specs, &r))
}

// A spec is one test in ginkgo's report.
type spec struct {
	ContainerHierarchyTexts []string
	LeafNodeText            string
	LeafNodeType            string
	State                   string
}

func (s spec) name() string {
	return strings.Join(append(s.ContainerHierarchyTexts, s.LeafNodeText), " ")
}

// readSpecs reads a report. It leaves out nodes that are not tests, such as BeforeSuite.
func readSpecs(report []byte) ([]spec, error) {
	var all []struct{ SpecReports []spec }
	if err := json.Unmarshal(report, &all); err != nil {
		return nil, err
	}
	var specs []spec
	for _, suite := range all {
		for _, s := range suite.SpecReports {
			if s.LeafNodeType == "It" {
				specs = append(specs, s)
			}
		}
	}
	return specs, nil
}

// count counts specs by state. It is an error if an exclusion matches no spec.
func (g ginkgoSuite) count(specs []spec, r *result) error {
	for _, s := range specs {
		switch s.State {
		case "passed":
			r.passed++
		case "skipped", "pending":
			r.skipped++
		default:
			r.failed++
		}
	}
	var errs []error
	for _, e := range g.without {
		pattern, err := regexp.Compile(e.test)
		if err != nil {
			return fmt.Errorf("exclude %q: %w", e.test, err)
		}
		matched := 0
		for _, s := range specs {
			if pattern.MatchString(s.name()) {
				matched++
			}
		}
		fmt.Printf("  %s: %d without %q: %s\n", g.pkg, matched, e.test, e.why)
		if matched == 0 {
			errs = append(errs, fmt.Errorf("%s has no spec %q any more: remove the exclusion", g.pkg, e.test))
		}
	}
	return errors.Join(errs...)
}

// goTest runs the tests of a module that has tests of its own.
func (s *suites) goTest(ctx context.Context, dir, pattern string) (result, error) {
	begun := time.Now()
	r := result{what: filepath.Base(dir)}
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-count=1", "-vet=off", pattern)
	cmd.Dir, cmd.Env, cmd.Stderr = dir, s.env, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return r, err
	}
	if err := cmd.Start(); err != nil {
		return r, fmt.Errorf("run go test: %w", err)
	}
	leaves := map[string]string{} // the last result of each test
	var printed []string
	for d := json.NewDecoder(out); ; {
		var e testEvent
		if d.Decode(&e) != nil {
			break
		}
		switch e.Action {
		case "pass", "fail", "skip":
			leaves[e.Test] = e.Action
		case "output", "build-output":
			printed = append(printed, e.Output)
		}
	}
	err = cmd.Wait()
	r.took = time.Since(begun)
	if err != nil {
		fmt.Print(strings.Join(printed, ""))
		err = fmt.Errorf("run go test in %s: %w", dir, err)
	}
	for name, state := range leaves {
		if name == "" || hasSubtest(leaves, name) {
			continue
		}
		switch state {
		case "pass":
			r.passed++
		case "skip":
			r.skipped++
		default:
			r.failed++
		}
	}
	return r, err
}

func hasSubtest(all map[string]string, name string) bool {
	for other := range all {
		if strings.HasPrefix(other, name+"/") {
			return true
		}
	}
	return false
}
