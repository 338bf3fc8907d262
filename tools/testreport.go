package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// A testReport holds the events of go test -json: see go doc test2json.
type testReport struct {
	runs    []*packageRun // in the order in which they began
	current map[string]*packageRun
	build   []string // messages of the compiler
}

// A packageRun is one run of tests of a package: its first run, or one of some tests again.
type packageRun struct {
	pkg    string
	tests  []*testCase // top-level tests in the order in which they began
	output testCase    // the output outside of tests
	last   []string    // the last lines of all output
	result string      // pass, fail, or skip for a package without tests; empty until it ends
	broken bool        // it does not compile
}

// lastLines is the number of lines that a packageRun keeps of all its tests.
const lastLines = 40

// A testCase is one run of a top-level test. The output of a subtest belongs to its test.
type testCase struct {
	name    string
	result  string // pass, fail, or skip; empty until it ends
	since   time.Time
	running bool     // it has begun and does not wait for other parallel tests
	output  []string // of a test that passed, only if it contains a data race
	raced   bool
}

// testEvent is a line of it.
type testEvent struct {
	Time                                       time.Time
	Action, Package, Test, Output, FailedBuild string
}

func newTestReport() *testReport { return &testReport{current: map[string]*packageRun{}} }

// add adds one line of the report. Lines that are no events are ignored.
func (r *testReport) add(line []byte) {
	var e testEvent
	if json.Unmarshal(line, &e) != nil {
		return
	}
	if e.Action == "build-output" {
		r.build = append(r.build, e.Output)
	}
	if e.Package == "" {
		return
	}
	run := r.current[e.Package]
	if run == nil || e.Action == "start" {
		run = &packageRun{pkg: e.Package}
		r.current[e.Package] = run
		r.runs = append(r.runs, run)
	}
	name, _, sub := strings.Cut(e.Test, "/")
	test := &run.output
	if name != "" {
		test = run.test(name)
	}
	switch e.Action {
	case "output":
		test.output = append(test.output, e.Output)
		run.last = append(run.last[max(0, len(run.last)-lastLines+1):], e.Output)
		test.raced = test.raced || strings.Contains(e.Output, "WARNING: DATA RACE")
	case "run", "cont", "pause":
		if !sub {
			test.running, test.since = e.Action != "pause", e.Time
		}
	case "pass", "fail", "skip":
		switch {
		case name == "":
			run.result, run.broken = e.Action, e.FailedBuild != ""
		case !sub:
			test.result, test.running = e.Action, false
			if e.Action != "fail" && !test.raced {
				test.output = nil
			}
		}
	}
}

// addAll adds the complete lines of a report and returns the rest.
func (r *testReport) addAll(lines []byte) (rest []byte) {
	for {
		line, after, found := bytes.Cut(lines, []byte("\n"))
		if !found {
			return lines
		}
		r.add(line)
		lines = after
	}
}

// test returns the test of this name.
func (p *packageRun) test(name string) *testCase {
	for _, t := range p.tests {
		if t.name == name {
			return t
		}
	}
	p.tests = append(p.tests, &testCase{name: name})
	return p.tests[len(p.tests)-1]
}

// running returns the names of the tests that have begun and do not wait.
func (p *packageRun) running() (names []string) {
	for _, t := range p.tests {
		if t.running {
			names = append(names, t.name)
		}
	}
	return names
}

// progress tells in one line how far the tests are.
func (r *testReport) progress(now time.Time) string {
	packages, tests := 0, 0
	var running []string
	for _, p := range r.runs {
		if p.result != "" {
			packages++
		}
		for _, t := range p.tests {
			switch {
			case t.result != "":
				tests++
			case t.running:
				running = append(running, fmt.Sprintf("%s %s %.0f s", short(p.pkg), t.name, now.Sub(t.since).Seconds()))
			}
		}
	}
	switch more := len(running) - 3; {
	case len(running) == 0:
		running = []string{"compiling and linking"}
	case more > 0:
		running = append(running[:3], fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("%d packages and %d tests have ended; %s", packages, tests, strings.Join(running, ", "))
}

// short leaves out the common prefix of all packages.
func short(pkg string) string { return strings.TrimPrefix(pkg, prefix+"/") }
