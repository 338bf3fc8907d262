package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
)

// A canary is a run of tests in the directory canary that must have a certain verdict.
type canary struct {
	name, run string // run is the pattern of the tests
	want      outcome
	quick     bool // it shows one rule of the verdict, and runs in CI
}

// An outcome is the part of a verdict that does not depend on the machine. Each finding is a test
// and a reason.
type outcome struct {
	passed, skipped      int
	final, failed, reran []string
}

// good reports whether the run must be accepted.
func (o outcome) good() bool { return len(o.final)+len(o.failed) == 0 }

// canaries are the runs. TestVerdict reads the reports that they wrote once.
var canaries = []canary{
	{"passes", "TestPasses", outcome{passed: 1}, false},
	{"skips", "TestSkips", outcome{skipped: 1, final: []string{": no test ran"}}, true},
	{"nothing", "TestNone", outcome{final: []string{": no test ran"}}, false},
	{"fails", "TestFails|TestPasses", outcome{passed: 1, failed: []string{"TestFails"}}, true},
	{
		"fails once", "TestFailsOnce|TestSubtestFailsOnce|TestPasses",
		outcome{passed: 3, reran: []string{"TestFailsOnce: " + chance, "TestSubtestFailsOnce: " + chance}}, true,
	},
	{"fails once alone", "TestFailsOnce", outcome{passed: 1, reran: []string{"TestFailsOnce: " + chance}}, false},
	{"subtest", "TestSubtestFails", outcome{failed: []string{"TestSubtestFails"}}, false},
	{"example", "Example_fails", outcome{failed: []string{"Example_fails"}}, false},
	{"fuzz", "FuzzFails", outcome{failed: []string{"FuzzFails"}}, false},
	{"leak", "TestLeaks", outcome{passed: 1, final: []string{": leaked goroutines"}}, true},
	{
		"leak beside a failure", "TestLeaks|TestFailsOnce",
		outcome{passed: 2, final: []string{": leaked goroutines"}, reran: []string{"TestFailsOnce: " + chance}}, true,
	},
	{"leak in a test", "TestLeaksAndFails", outcome{final: []string{"TestLeaksAndFails: leaked goroutines"}}, false},
	{"panic", "TestPanics|TestPasses|TestRaces", outcome{passed: 1, final: []string{"TestPanics: panic"}}, true},
	{"fatal error", "TestBreaksTheRuntime", outcome{final: []string{"TestBreaksTheRuntime: panic"}}, false},
	{"exit", "TestExits", outcome{final: []string{"TestExits: the test did not end"}}, false},
	{
		"killed", "TestWaits|TestIsKilled",
		outcome{passed: 1, final: []string{"TestIsKilled: the test did not end: signal: killed"}}, true,
	},
	{"time limit", "TestNeverEnds", outcome{final: []string{"TestNeverEnds: panic"}}, false},
	{"race", "TestRaces", outcome{final: []string{"TestRaces: data race"}}, true},
	{"race of a program", "TestShowsARace", outcome{passed: 1, final: []string{"TestShowsARace: data race"}}, true},
	{"broken", "TestBroken", outcome{final: []string{": it does not compile"}}, false},
}

// runCanaries runs tests that must fail, in the way of runTests, and compares the verdicts with the
// expected ones. It runs those that CI needs; -all runs all, and -record writes their reports for
// TestVerdict. It prints the output of a run only if the verdict is wrong.
func runCanaries(ctx context.Context, repo *Repo, args []string) error {
	flags := flag.NewFlagSet("canary", flag.ContinueOnError)
	all := flags.Bool("all", false, "run also those that only the tests of the verdict need")
	record := flags.String("record", "", "write the reports into this `directory`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var wrong []error
	ran := 0
	for _, c := range canaries {
		if !c.quick && !*all {
			continue
		}
		ran++
		v, output, err := c.judge(ctx, repo, *record)
		if err != nil && !errors.Is(err, errTold) {
			return fmt.Errorf("run canary %s: %w", c.name, err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		got := v.outcome()
		fmt.Printf("canary: %s: %+v\n", c.name, got)
		if accepted := err == nil; !reflect.DeepEqual(got, c.want) || accepted != c.want.good() {
			fmt.Println(output)
			wrong = append(wrong, fmt.Errorf("canary %s: the verdict is %+v, accepted: %v, want %+v",
				c.name, got, accepted, c.want))
		}
	}
	if len(wrong) == 0 {
		fmt.Printf("canary: all %d runs have the expected verdict\n", ran)
	}
	return errors.Join(wrong...)
}

// judge runs a canary. It returns the verdict, the output, and the error of the run.
func (c canary) judge(ctx context.Context, repo *Repo, record string) (verdict, string, error) {
	dir, err := os.MkdirTemp("", "pintle-canary-")
	if err != nil {
		return verdict{}, "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	out, err := os.Create(filepath.Join(dir, "output"))
	if err != nil {
		return verdict{}, "", err
	}
	defer out.Close()
	b := batch{
		Dir: filepath.Join(repo.Dir, "tools"), Env: []string{"GOWORK=off", "CGO_ENABLED=1", "CANARY_DIRECTORY=" + dir},
		Build: []string{"-trimpath", "-race", "-tags=canary"}, Flags: []string{"-run=^(" + c.run + ")$"},
		Packages: []string{"./canary"},
	}
	switch c.name {
	case "broken":
		b.Packages = append(b.Packages, "./canary/broken")
	case "time limit":
		b.Flags = append(b.Flags, "-timeout=5s")
	}
	t := testRun{batches: []batch{b}, reruns: true, out: out}
	if record != "" {
		t.events = filepath.Join(record, c.file())
	}
	v, err := t.run(ctx)
	output, readErr := os.ReadFile(out.Name())
	return v, string(output), errors.Join(err, readErr)
}

func (c canary) file() string { return strings.ReplaceAll(c.name, " ", "-") + ".json" }

// outcome returns the part of the verdict that does not depend on the machine.
func (v verdict) outcome() outcome {
	texts := func(findings []finding) (all []string) {
		for _, f := range findings {
			all = append(all, strings.TrimSuffix(f.test+": "+f.why, ": "))
		}
		return all
	}
	return outcome{v.passed, v.skipped, texts(v.final), texts(v.failed), texts(v.reran)}
}
