package main

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A verdict is the judgement of a report. Tests that failed by chance have run again, alone. A
// test that failed and then passed is accepted, and is a defect to mend. Some failures are final
// although the test passed later: a data race, a panic, leaked goroutines, a test that did not
// end, and a package that failed without a failed test.
type verdict struct {
	passed, skipped int
	final           []finding // failures that no later run changes
	failed          []finding // tests that failed in their last run
	reran           []finding // tests that failed and then passed
	// rest names, for packages of rerun tests, the tests that the last run must leave out.
	// Goroutines that are left after a failed test may be those of this test, so the first run
	// has not shown that the other tests leave none. A package that found none says so (noLeak),
	// and does not run again.
	rest map[string][]string
}

// A finding is one test, or a package if there is no test.
type finding struct {
	pkg, test string
	why       string
	output    []string
	whole     bool // the summary repeats all of the output
}

// chance is the reason of a finding that a test has failed by chance.
const chance = "it failed, and passed when it ran again alone"

// ok reports whether all tests have passed.
func (v verdict) ok() bool { return !v.lost() && len(v.rest) == 0 }

// lost reports whether no further run can make the verdict good.
func (v verdict) lost() bool { return len(v.final)+len(v.failed) > 0 }

var (
	// A crash of a test program begins a line. One of a program under test stands in a log.
	crash        = regexp.MustCompile(`(?m)^(panic: |fatal error: |SIG[A-Z]+: )`)
	crashInLog   = regexp.MustCompile(`(?m)\b(panic: |fatal error: )|goroutine \d+ .*\[running`)
	leak         = regexp.MustCompile(`found unexpected goroutines`)
	noLeak       = regexp.MustCompile(`(?m)^leak: a test has failed, and no goroutine is left$`) // see internal/leak
	raceDetected = regexp.MustCompile(`WARNING: DATA RACE|race detected (during|outside)`)
)

// judge judges a report. It is final that nothing ran.
func judge(r *testReport) verdict {
	v := verdict{rest: map[string][]string{}}
	var packages []string
	runs := map[string][]*packageRun{}
	for _, p := range r.runs {
		if f := p.final(); f.why != "" {
			if p.broken {
				f.output = r.build
			}
			v.addFinal(f)
		}
		if runs[p.pkg] == nil {
			packages = append(packages, p.pkg)
		}
		runs[p.pkg] = append(runs[p.pkg], p)
	}
	for _, pkg := range packages {
		v.tests(runs[pkg])
	}
	v.failed = slices.DeleteFunc(v.failed, func(f finding) bool { // it is counted once
		return slices.ContainsFunc(v.final, func(g finding) bool { return f.pkg == g.pkg && f.test == g.test })
	})
	if v.passed+len(v.failed)+len(v.final) == 0 {
		v.addFinal(finding{why: "no test ran"})
	}
	return v
}

// addFinal adds a finding unless an earlier run had the same.
func (v *verdict) addFinal(f finding) {
	same := func(g finding) bool { return f.pkg == g.pkg && f.test == g.test && f.why == g.why }
	if !slices.ContainsFunc(v.final, same) {
		v.final = append(v.final, f)
	}
}

// final returns the finding that makes the result of a run final. Without one, its reason is "".
func (p *packageRun) final() finding {
	shows := func(t *testCase, why string) finding {
		return finding{pkg: p.pkg, test: t.name, why: why, output: slices.Concat(t.output, p.output.output)}
	}
	all := append([]*testCase{&p.output}, p.tests...)
	find := func(is func(t *testCase) bool) *testCase {
		if i := slices.IndexFunc(all, is); i >= 0 {
			return all[i]
		}
		return nil
	}
	says := func(pattern *regexp.Regexp, failed bool) *testCase {
		return find(func(t *testCase) bool {
			return (!failed || t.result == "fail") && pattern.MatchString(strings.Join(t.output, ""))
		})
	}
	if t := find(func(t *testCase) bool { return t.raced }); t != nil {
		return shows(t, "data race")
	}
	if p.result == "fail" {
		if p.broken {
			return shows(&p.output, "it does not compile")
		}
		for _, c := range []struct {
			why     string
			pattern *regexp.Regexp
			failed  bool
		}{
			{"data race", raceDetected, false},
			{"panic", crash, false},
			{"panic", crashInLog, true},
			{"leaked goroutines", leak, false},
		} {
			if t := says(c.pattern, c.failed); t != nil {
				return shows(t, c.why)
			}
		}
	}
	if slices.ContainsFunc(p.tests, func(t *testCase) bool { return t.result == "" }) {
		if names := p.running(); len(names) > 0 {
			return p.ended(strings.Join(names, ", "), "the test did not end")
		}
		return p.ended("", "the package ended while its tests waited")
	}
	failed := slices.ContainsFunc(p.tests, func(t *testCase) bool { return t.result == "fail" })
	switch {
	case p.result == "":
		return p.ended("", "the package did not end")
	case p.result == "fail" && !failed:
		return p.ended("", "the package failed without a failed test")
	case p.result != "fail" && failed:
		return shows(&p.output, "the package passed with a failed test")
	}
	return finding{}
}

// processEnd matches the line in which go test tells how a test program ended. It tells a signal,
// and a status only if the program printed nothing.
var processEnd = regexp.MustCompile(`^(signal: .+|exit status \d+|\*\*\* Test killed.+)\n$`)

// ended returns the finding that the program of a run ended too early. No test tells the cause, so
// the finding has the last lines of all tests.
func (p *packageRun) ended(test, why string) finding {
	for _, line := range p.last {
		if end := processEnd.FindStringSubmatch(line); end != nil {
			why += ": " + end[1]
		}
	}
	return finding{p.pkg, test, why, p.last, true}
}

// tests adds the tests of a package to the verdict. The last run of a test counts.
func (v *verdict) tests(runs []*packageRun) {
	var order []string
	first, last := map[string]*testCase{}, map[string]*testCase{}
	for _, p := range runs {
		for _, t := range p.tests {
			if last[t.name] == nil {
				order = append(order, t.name)
			}
			if t.result == "fail" {
				first[t.name] = cmp.Or(first[t.name], t)
			}
			last[t.name] = t
		}
	}
	pkg := runs[0].pkg
	var again, others []string
	for _, name := range order {
		failure := first[name]
		switch result := last[name].result; {
		case failure != nil && result == "pass":
			v.passed++
			v.reran = append(v.reran, finding{pkg, name, chance, failure.output, false})
			again = append(again, name)
			continue
		case failure != nil:
			v.failed = append(v.failed, finding{pkg, name, "", failure.output, false})
		case result == "pass":
			v.passed++
		case result == "skip":
			v.skipped++
		}
		others = append(others, name)
	}
	whole := func(p *packageRun) bool { // all tests but those ran again
		names := make([]string, 0, len(p.tests))
		for _, t := range p.tests {
			names = append(names, t.name)
		}
		slices.Sort(names)
		return p.result == "pass" && slices.Equal(names, slices.Sorted(slices.Values(others)))
	}
	looked := noLeak.MatchString(strings.Join(runs[0].output.output, ""))
	if len(again) > 0 && !looked && !slices.ContainsFunc(runs[1:], whole) {
		v.rest[pkg] = again
	}
}

// told is the number of lines that the summary repeats of a failure.
const told = 12

// unrelated matches a line that says nothing about the cause of a failure: the start of a test,
// its success, or a record of slog.
var unrelated = regexp.MustCompile(
	`^\s*(=== (RUN|PAUSE|CONT|NAME)|--- (PASS|SKIP)|\d{4}/\d\d/\d\d [\d:]+ (DEBUG|INFO|WARN|ERROR))`)

// brief returns the beginning and the end of an output.
func brief(lines []string) []string {
	lines = slices.DeleteFunc(lines, func(line string) bool { return line == "" || unrelated.MatchString(line) })
	if len(lines) > told {
		lines = slices.Concat(lines[:told/2], []string{"[…]"}, lines[len(lines)-told/2:])
	}
	return lines
}

// print prints the findings and, in the last line, the number of tests.
func (v verdict) print(w io.Writer, took time.Duration) {
	for _, group := range []struct {
		title    string
		findings []finding
	}{{"reran", v.reran}, {"failed", v.failed}, {"final", v.final}} {
		for _, f := range group.findings {
			fmt.Fprintf(w, "test: %s: %s\n", group.title, f)
			lines := strings.Split(strings.TrimSpace(strings.Join(f.output, "")), "\n")
			if !f.whole {
				lines = brief(lines)
			}
			for _, line := range lines {
				fmt.Fprintf(w, "\t%s\n", line)
			}
		}
	}
	fmt.Fprintf(w, "test: %d passed, %d failed, %d skipped, %d of them ran again, in %.0f s\n",
		v.passed, len(v.failed)+len(v.final), v.skipped, len(v.reran), took.Seconds())
}

func (f finding) String() string {
	text := strings.TrimSpace(short(f.pkg) + " " + f.test)
	if f.why != "" {
		text = strings.TrimPrefix(text+": "+f.why, ": ")
	}
	return text
}
