package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// soak holds the long tests of one package. The name of the package is relative to the
// repository.
type soak struct {
	pkg    string
	tests  []string // tests named TestSoak
	models []string // tests that check properties of random histories with rapid
	fuzz   []string // fuzz targets
}

// A soakPart is one command of the soak.
type soakPart struct {
	name string
	run  func(ctx context.Context, repo *Repo) error
	// takes is a usual duration: the part is left out if less time is left.
	takes time.Duration
}

const (
	soakChecks = "1000" // of each model; make test has rapid's default of 100
	soakFuzz   = 15 * time.Second
)

// runSoak runs the tests that make test leaves out or runs for a shorter time: the tests
// named TestSoak, other projects' tests as make suites has them, the models with more
// random histories, and the fuzz targets. The soak is bounded in time. The parts run in a
// random order, so that over many runs each part has its turn, and -seed repeats an order.
// It prints the names of the parts that it left out.
func runSoak(ctx context.Context, repo *Repo, args []string) error {
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	limit := flags.Duration("limit", 30*time.Minute, "begin no part that would end later")
	race := flags.Bool("race", false, "use the race detector, except for fuzzing")
	seed := flags.Uint64("seed", 0, "the order of the parts; 0 draws one")
	if err := flags.Parse(args); err != nil {
		return err
	}
	begun := time.Now()
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	packages, err := findSoaks(repo)
	if err != nil {
		return err
	}
	parts := soakParts(packages, *race, rand.New(rand.NewPCG(*seed, 0)))
	fmt.Printf("soak: %d parts in the order of -seed %d, at most %s\n", len(parts), *seed, *limit)
	var failed []error
	var left []string
	for _, p := range parts {
		if time.Since(begun)+p.takes > *limit {
			left = append(left, p.name)
			continue
		}
		fmt.Printf("soak: %s\n", p.name)
		if err := p.run(ctx, repo); err != nil {
			failed = append(failed, errors.New(p.name+": "+err.Error())) // main prints nothing for errTold
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	fmt.Printf("soak: %d of %d parts in %.0f s\n", len(parts)-len(left), len(parts), time.Since(begun).Seconds())
	for _, name := range left {
		fmt.Printf("soak: left out for lack of time: %s\n", name)
	}
	return errors.Join(failed...)
}

// goTestPart is a part that runs go test in a package. A failure of a model or of a fuzz target is
// a finding, so only a test named TestSoak runs again.
func goTestPart(name string, takes time.Duration, b batch, race bool) soakPart {
	run := func(ctx context.Context, repo *Repo) error {
		in := workspaceBatch(repo, race, b.Packages, b.Flags...)
		in.Args = b.Args
		t := testRun{batches: []batch{in}, reruns: strings.HasPrefix(name, "TestSoak"), out: os.Stdout}
		if _, err := t.run(ctx); err != nil {
			return fmt.Errorf("run go test %s: %w", strings.Join(b.Flags, " "), err)
		}
		return nil
	}
	return soakPart{name, run, takes}
}

// suiteParts are the parts that run a step of make suites: one for each of its packages.
func suiteParts(step suiteStep) (parts []soakPart) {
	packages := step.packages
	if packages == nil {
		packages = []string{""}
	}
	for _, pkg := range packages {
		run := func(ctx context.Context, repo *Repo) error {
			return runSuites(ctx, repo, []string{"-only=" + step.name, "-package=" + pkg})
		}
		parts = append(parts, soakPart{strings.TrimSpace("suites: " + step.name + " " + pkg), run, step.takes})
	}
	return parts
}

// soakParts returns the parts: first the tests named TestSoak and the suites, then all
// others, each in a random order.
func soakParts(packages []soak, race bool, random *rand.Rand) []soakPart {
	var named, others []soakPart
	for _, step := range suiteSteps() {
		named = append(named, suiteParts(step)...)
	}
	for _, s := range packages {
		in := []string{"./" + s.pkg}
		for _, test := range s.tests {
			b := batch{Packages: in, Flags: []string{"-run=^" + test + "$", "-timeout=15m"}}
			named = append(named, goTestPart(test+" of "+s.pkg, 3*time.Minute, b, race))
		}
		for _, test := range s.models {
			// A model in virtual time checks as many histories as the timeout allows.
			b := batch{
				Packages: in, Flags: []string{"-run=^" + test + "$", "-timeout=5m"}, Args: []string{"-rapid.checks=" + soakChecks},
			}
			others = append(others, goTestPart(test+" of "+s.pkg+", "+soakChecks+" checks", time.Minute, b, race))
		}
		for _, target := range s.fuzz {
			// The race detector would leave the fuzzing engine a tenth of the inputs.
			b := batch{
				Packages: in,
				Flags:    []string{"-run=^$", "-fuzz=^" + target + "$", "-fuzztime=" + soakFuzz.String(), "-timeout=15m"},
			}
			others = append(others, goTestPart(target+" of "+s.pkg, 2*soakFuzz, b, false))
		}
	}
	for _, parts := range [][]soakPart{named, others} {
		random.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	}
	return append(named, others...)
}

// findSoaks reads the test files of the workspace.
func findSoaks(repo *Repo) ([]soak, error) {
	var found []soak
	for _, m := range repo.Modules {
		err := m.packageDirs(func(dir string) error {
			rel, err := filepath.Rel(repo.Dir, dir)
			if err != nil {
				return err
			}
			s, err := readSoak(filepath.ToSlash(rel), dir)
			if len(s.tests)+len(s.models)+len(s.fuzz) > 0 {
				found = append(found, s)
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("find the tests of the soak in %s: %w", m.Path, err)
		}
	}
	return found, nil
}

func readSoak(pkg, dir string) (soak, error) {
	s := soak{pkg: pkg}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return s, err
	}
	for _, e := range entries {
		if e.IsDir() || !strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, e.Name()), nil, parser.SkipObjectResolution)
		if err != nil {
			return s, fmt.Errorf("parse source: %w", err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil {
				continue
			}
			switch name := f.Name.Name; {
			case strings.HasPrefix(name, "TestSoak"):
				s.tests = append(s.tests, name)
			case strings.HasPrefix(name, "Test") && (names(f, "rapid", "Check") || names(f, "bubble", "Check")):
				s.models = append(s.models, name)
			case strings.HasPrefix(name, "Fuzz"):
				s.fuzz = append(s.fuzz, name)
			}
		}
	}
	return s, nil
}
