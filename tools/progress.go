package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// progress shows the events of go test -json to a person.
type progress struct {
	mu      sync.Mutex
	out     io.Writer
	begun   time.Time
	last    time.Time            // the time of the last output
	running map[testID]time.Time // start times of packages and of top-level tests
	output  map[testID][]string  // the output of each test and package that has not ended
	count   map[string]int       // ended top-level tests, by result
	failed  []failure
	late    []failure       // tests that failed at a deadline, and passed alone
	broken  map[string]bool // packages that failed without a failed test, as by a leak of goroutines
}

// A failure is a failed top-level test.
type failure struct {
	id   testID
	text string // for the summary
	late bool   // see isLate
}

// testID names a test of a package. Without a test it names the package.
type testID struct{ pkg, test string }

// event is an event of go test -json; see go doc test2json.
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Elapsed    float64
	Output     string
}

func newProgress(out io.Writer) *progress {
	now := time.Now()
	return &progress{
		out: out, begun: now, last: now,
		running: map[testID]time.Time{}, output: map[testID][]string{}, count: map[string]int{},
		broken: map[string]bool{},
	}
}

// read shows events until there are no more. Lines that are not events come from the go
// command and are shown unchanged.
func (p *progress) read(r io.Reader) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) == nil && e.Action != "" {
				p.handle(e)
			} else {
				p.handle(event{Action: "build-output", Output: string(line)})
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read test events: %w", err)
		}
	}
}

func (p *progress) handle(e event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	top, _, sub := strings.Cut(e.Test, "/")
	id := testID{e.Package, top} // the output of a subtest belongs to its test
	switch e.Action {
	case "build-output":
		p.printf("%s", e.Output)
	case "start":
		p.running[id] = time.Now()
	case "pause": // a parallel test waits for its turn
		if !sub {
			delete(p.running, id)
		}
	case "run", "cont":
		if !sub {
			p.running[id] = time.Now()
		}
	case "output":
		p.output[id] = append(p.output[id], e.Output)
	case "pass", "fail", "skip":
		if !sub {
			p.ended(id, e)
		}
	}
}

// ended shows the result of a test or a package.
func (p *progress) ended(id testID, e event) {
	printed := p.output[id]
	delete(p.output, id)
	delete(p.running, id)
	if id.test != "" {
		p.count[e.Action]++
	}
	switch {
	case e.Action == "fail":
		p.lost(id)
		p.printf("%s", strings.Join(printed, ""))
		p.printf("FAIL %s %s (%.2f s)\n", short(id.pkg), id.test, e.Elapsed)
		if id.test != "" {
			p.remember(id, printed)
		} else if !slices.ContainsFunc(p.failed, func(f failure) bool { return f.id.pkg == id.pkg }) {
			p.broken[id.pkg] = true
		}
	case id.test == "" && e.Action == "skip":
		p.printf("     %s has no tests\n", short(id.pkg))
	case id.test == "":
		p.printf("ok   %s (%.2f s)\n", short(id.pkg), e.Elapsed)
	case e.Action == "skip":
		p.printf("skip %s %s: %s\n", short(id.pkg), id.test, reason(printed))
	default:
		p.printf("pass %s %s (%.2f s)\n", short(id.pkg), id.test, e.Elapsed)
	}
}

// lost shows the output of tests that a failed package left without a result, as after a
// crash or at a time limit.
func (p *progress) lost(pkg testID) {
	if pkg.test != "" {
		return
	}
	var names []string
	for id := range p.running {
		if id.pkg == pkg.pkg {
			names = append(names, id.test)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		id := testID{pkg.pkg, name}
		p.printf("%sFAIL %s %s did not end\n", strings.Join(p.output[id], ""), short(id.pkg), id.test)
		p.remember(id, p.output[id])
		p.count["fail"]++
		delete(p.running, id)
		delete(p.output, id)
	}
}

// reason finds the reason for a skipped test in the test's output.
func reason(printed []string) string {
	for _, line := range slices.Backward(printed) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "---") && !strings.HasPrefix(line, "===") {
			return line
		}
	}
	return "no reason given"
}

// waiting shows the running tests if nothing was shown for a while.
func (p *progress) waiting() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.last) < 10*time.Second {
		return
	}
	var names []string
	for id, since := range p.running {
		if id.test != "" {
			names = append(names, fmt.Sprintf("%s %s %.0f s", short(id.pkg), id.test, time.Since(since).Seconds()))
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		names = []string{"compiling and linking tests"}
	}
	p.printf("...  %s\n", strings.Join(names, ", "))
}

// told is the number of lines that the summary repeats of a failed test.
const told = 12

// progressLine matches a line that says nothing about the cause of a failure: the start of a
// test, its success, or a record of slog.
var progressLine = regexp.MustCompile(`^\s*(=== (RUN|PAUSE|CONT|NAME)|--- (PASS|SKIP)|\d{4}/\d\d/\d\d [\d:]+ (DEBUG|INFO|WARN|ERROR))`)

// remember keeps the beginning and the end of the output of a failed test for the summary.
func (p *progress) remember(id testID, printed []string) {
	all := strings.Join(printed, "")
	lines := strings.Split(strings.TrimSuffix(all, "\n"), "\n")
	lines = slices.DeleteFunc(lines, progressLine.MatchString)
	if len(lines) > told {
		lines = slices.Concat(lines[:told/2], []string{"[…]"}, lines[len(lines)-told/2:])
	}
	text := fmt.Sprintf("%s %s\n\t%s\n", short(id.pkg), id.test, strings.Join(lines, "\n\t"))
	p.failed = append(p.failed, failure{id, text, isLate(all)})
}

// summary shows the failed tests again, which may be far above, and counts all.
func (p *progress) summary() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.late {
		p.printf("test: late: passed alone, after it had failed at a deadline: %s", f.text)
	}
	for _, f := range p.failed {
		p.printf("test: failed: %s", f.text)
	}
	p.printf("test: %d passed, %d failed, %d skipped in %.0f s\n",
		p.count["pass"], p.count["fail"], p.count["skip"], time.Since(p.begun).Seconds())
}

func (p *progress) printf(format string, args ...any) {
	p.last = time.Now()
	fmt.Fprintf(p.out, format, args...)
}

// short leaves out the common prefix of all packages.
func short(pkg string) string { return strings.TrimPrefix(pkg, prefix+"/") }
