package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestProgress(t *testing.T) {
	const p = `"Package": "github.com/pintle-go/pintle/kube"`
	tests := map[string]struct {
		events string
		want   string
	}{
		"pass": {`
{"Action": "start", ` + p + `}
{"Action": "run", ` + p + `, "Test": "TestA"}
{"Action": "output", ` + p + `, "Test": "TestA", "Output": "quiet\n"}
{"Action": "run", ` + p + `, "Test": "TestA/one"}
{"Action": "pass", ` + p + `, "Test": "TestA/one"}
{"Action": "pass", ` + p + `, "Test": "TestA", "Elapsed": 0.5}
{"Action": "pass", ` + p + `, "Elapsed": 1}`,
			"pass kube TestA (0.50 s)\nok   kube (1.00 s)\n1 0 0",
		},
		"fail": {`
{"Action": "run", ` + p + `, "Test": "TestA"}
{"Action": "output", ` + p + `, "Test": "TestA", "Output": "a_test.go:1: first\n"}
{"Action": "run", ` + p + `, "Test": "TestA/one"}
{"Action": "output", ` + p + `, "Test": "TestA/one", "Output": "a_test.go:2: second\n"}
{"Action": "fail", ` + p + `, "Test": "TestA/one"}
{"Action": "fail", ` + p + `, "Test": "TestA", "Elapsed": 0.5}`,
			"a_test.go:1: first\na_test.go:2: second\nFAIL kube TestA (0.50 s)\n0 1 0",
		},
		"skip": {`
{"Action": "run", ` + p + `, "Test": "TestA"}
{"Action": "output", ` + p + `, "Test": "TestA", "Output": "=== RUN   TestA\n"}
{"Action": "output", ` + p + `, "Test": "TestA", "Output": "    a_test.go:1: no containerd\n"}
{"Action": "output", ` + p + `, "Test": "TestA", "Output": "--- SKIP: TestA (0.00s)\n"}
{"Action": "skip", ` + p + `, "Test": "TestA"}`,
			"skip kube TestA: a_test.go:1: no containerd\n0 0 1",
		},
		"crash": {`
{"Action": "start", ` + p + `}
{"Action": "run", ` + p + `, "Test": "TestA"}
{"Action": "output", ` + p + `, "Test": "TestA", "Output": "panic: oh\n"}
{"Action": "output", ` + p + `, "Output": "exit status 2\n"}
{"Action": "fail", ` + p + `, "Elapsed": 2}`,
			"panic: oh\nFAIL kube TestA did not end\nexit status 2\nFAIL kube  (2.00 s)\n0 1 0",
		},
		"does not compile": {`
{"ImportPath": "x", "Action": "build-output", "Output": "x.go:1: undefined\n"}
go: warning`,
			"x.go:1: undefined\ngo: warning0 0 0",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			p := newProgress(&out)
			if err := p.read(strings.NewReader(strings.TrimPrefix(test.events, "\n"))); err != nil {
				t.Fatal(err)
			}
			out.WriteString(
				strings.Join([]string{digits(p.count["pass"]), digits(p.count["fail"]), digits(p.count["skip"])}, " "),
			)
			if out.String() != test.want {
				t.Errorf("got\n%s\nwant\n%s", out.String(), test.want)
			}
		})
	}
}

func digits(n int) string { return string(rune('0' + n)) }

// The summary repeats the first and the last lines of a failed test, whose output may be far
// above, without those that say nothing about the failure.
func TestSummaryRepeatsFailures(t *testing.T) {
	var out strings.Builder
	p := newProgress(&out)
	id := testID{prefix + "/kube", "TestA"}
	for i := range 2 * told {
		for _, line := range []string{
			fmt.Sprintln("=== RUN   TestA/", i), fmt.Sprintln("line", i), "\t2026/11/24 09:09:46 WARN store is out of sync\n",
		} {
			p.handle(event{Action: "output", Package: id.pkg, Test: id.test, Output: line})
		}
	}
	p.handle(event{Action: "fail", Package: id.pkg, Test: id.test})
	out.Reset()
	p.summary()
	want := []string{"test: failed: kube TestA"}
	for i := range told / 2 {
		want = append(want, fmt.Sprint("\tline ", i))
	}
	want = append(want, "\t[…]")
	for i := range told / 2 {
		want = append(want, fmt.Sprint("\tline ", 2*told-told/2+i))
	}
	want = append(want, "test: 0 passed, 1 failed")
	lines := strings.Split(out.String(), "\n")
	for i, line := range want {
		if i >= len(lines) || !strings.HasPrefix(lines[i], line) {
			t.Fatalf("the summary is %q, want %q", out.String(), want)
		}
	}
}

// A parallel test that waits for its turn does not run.
func TestPausedTestsDoNotRun(t *testing.T) {
	var out strings.Builder
	p := newProgress(&out)
	for _, name := range []string{"TestA", "TestB"} {
		p.handle(event{Action: "run", Package: prefix + "/kube", Test: name})
		p.handle(event{Action: "pause", Package: prefix + "/kube", Test: name})
	}
	p.handle(event{Action: "cont", Package: prefix + "/kube", Test: "TestB"})
	p.last = time.Time{}
	p.waiting()
	if got := out.String(); strings.Contains(got, "TestA") || !strings.Contains(got, "kube TestB") {
		t.Errorf("the running tests are %q", got)
	}
}
