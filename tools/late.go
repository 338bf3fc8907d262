package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A test that waits for a cluster has a deadline, so that it ends if it waits in vain. On a
// busy machine the deadline measures the machine as well. So a test that failed at a
// deadline runs again alone, and only that run counts. The summary shows the first failure.
// All other failures are final.

// mostLate is the largest number of such tests in one run. More are a failure of the
// product, or of the run.
const mostLate = 3

var (
	// The second half are the texts of helpers that wait for a condition.
	lateLine = regexp.MustCompile(`context deadline exceeded|: timed? ?out|Client\.Timeout exceeded|i/o timeout|` +
		`did not happen|it is not so that|not within |not seen in time|does not become ready|does not converge`)
	finalLine = regexp.MustCompile(`(?m)WARNING: DATA RACE|^\s*panic: |fatal error: |found unexpected goroutines`)
)

// programLine matches a line that a program under test has logged: its deadlines are not the test's.
// A test that shows a whole log begins each line of it with a bar.
var programLine = regexp.MustCompile(`(?m)^\s*(optest\.go:\d+: |\| ).*$`)

// isLate reports whether the output of a failed test says that it failed at a deadline.
func isLate(output string) bool {
	return lateLine.MatchString(programLine.ReplaceAllString(output, "")) && !finalLine.MatchString(output)
}

// onlyLate reports whether all failures are those of a few tests at a deadline.
func (p *progress) onlyLate() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.broken) == 0 && len(p.failed) > 0 && len(p.failed) <= mostLate &&
		!slices.ContainsFunc(p.failed, func(f failure) bool { return !f.late })
}

// runLateAgain runs the failed tests again, one after the other, with the flags of their
// batches. The error joins those that fail again.
func runLateAgain(ctx context.Context, p *progress, batches []batch) error {
	var errs []error
	var failed []failure
	for _, f := range p.failed {
		fmt.Printf("test: %s %s failed at a deadline; it runs again, alone\n", short(f.id.pkg), f.id.test)
		second := newProgress(os.Stdout)
		stop := every(15*time.Second, second.waiting)
		err := again(ctx, second, batches, f.id)
		stop()
		if err == nil && second.count["pass"] != 1 {
			err = fmt.Errorf("run %s again: %d tests passed, want 1", f.id.test, second.count["pass"])
		}
		if err != nil {
			errs = append(errs, err)
			failed = append(failed, f)
			continue
		}
		p.count["fail"]--
		p.count["pass"]++
		p.late = append(p.late, f)
	}
	p.failed = failed
	return errors.Join(errs...)
}

// again runs a test with the flags of the batch that has its package: the last one whose
// module contains it.
func again(ctx context.Context, p *progress, batches []batch, id testID) error {
	of := batches[0]
	for _, b := range batches[1:] {
		if module := b.module(ctx); module != "" && (id.pkg == module || strings.HasPrefix(id.pkg, module+"/")) {
			of = b
		}
	}
	of.flags = append(slices.Clone(of.flags), "-run=^"+id.test+"$")
	of.packages = []string{id.pkg}
	return of.run(ctx, p)
}

// module returns the path of the module in the batch's directory, or "".
func (b batch) module(ctx context.Context) string {
	out, err := b.command(ctx, "list", "-m").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
