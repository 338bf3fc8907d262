package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// The reports are those of the canaries, written by "tools canary -all -record".
func TestVerdict(t *testing.T) {
	for _, c := range canaries {
		t.Run(c.name, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join("testdata", "verdict", c.file()))
			if err != nil {
				t.Fatal(err)
			}
			r := newTestReport()
			r.addAll(data)
			v := judge(r)
			if got := v.outcome(); !reflect.DeepEqual(got, c.want) {
				t.Errorf("the verdict is %+v, want %+v", got, c.want)
			}
			if v.ok() != c.want.good() {
				t.Errorf("the verdict is good: %v, want %v", v.ok(), c.want.good())
			}
		})
	}
}

// A play is a short form of a report: each word is an event of package p, such as run:TestA.
func play(words string) *testReport {
	r := newTestReport()
	for word := range strings.FieldsSeq(words) {
		action, test, _ := strings.Cut(word, ":")
		test, output, _ := strings.Cut(test, "=")
		output = strings.ReplaceAll(output, "_", " ")
		r.add(fmt.Appendf(nil, `{"Action":%q,"Package":"p","Test":%q,"Output":"%s\n"}`, action, test, output))
	}
	return r
}

func TestVerdictOfReruns(t *testing.T) {
	const first = "start run:TestA fail:TestA run:TestB pass:TestB run:TestC skip:TestC fail "
	const again = "start run:TestA pass:TestA pass "
	const rest = "start run:TestB pass:TestB run:TestC skip:TestC pass "
	rerun := []string{"TestA: " + chance}
	for name, test := range map[string]struct {
		words string
		want  outcome
		ok    bool
	}{
		"the others have not run again": {first + again, outcome{2, 1, nil, nil, rerun}, false},
		"the others have run again":     {first + again + rest, outcome{2, 1, nil, nil, rerun}, true},
		"the first run has looked for leaked goroutines": {
			strings.TrimSuffix(first, "fail ") + "output:=leak:_a_test_has_failed,_and_no_goroutine_is_left fail " + again,
			outcome{2, 1, nil, nil, rerun}, true,
		},
		"only a rerun has looked": {
			first + "start run:TestA fail:TestA output:=leak:_a_test_has_failed,_and_no_goroutine_is_left fail " + again,
			outcome{2, 1, nil, nil, rerun}, false,
		},
		"not all others have": {
			first + again + "start run:TestB pass:TestB pass",
			outcome{2, 1, nil, nil, rerun}, false,
		},
		"no others have": {first + again + "start pass", outcome{2, 1, nil, nil, rerun}, false},
		"the second rerun passes": {
			first + "start run:TestA fail:TestA fail " + again + rest,
			outcome{2, 1, nil, nil, rerun}, true,
		},
		"the rerun finds no test": {
			first + "start pass " + rest,
			outcome{1, 1, nil, []string{"TestA"}, nil}, false,
		},
		"the rerun skips": {
			first + "start run:TestA skip:TestA pass " + rest,
			outcome{1, 1, nil, []string{"TestA"}, nil}, false,
		},
		"the rerun passes, its package not": {
			first + "start run:TestA pass:TestA fail " + rest,
			outcome{2, 1, []string{": the package failed without a failed test"}, nil, rerun}, false,
		},
		"another test fails in the last run": {
			first + again + "start run:TestB fail:TestB run:TestC skip:TestC fail",
			outcome{1, 1, nil, []string{"TestB"}, rerun}, false,
		},
		"the last run leaks": {
			first + again + "start run:TestB pass:TestB run:TestC skip:TestC output:=goleak:_found_unexpected_goroutines fail",
			outcome{2, 1, []string{": leaked goroutines"}, nil, rerun}, false,
		},
		"the package passes without tests that ran": {
			"start run:TestA pass:TestA run:TestB pass",
			outcome{1, 0, []string{"TestB: the test did not end"}, nil, nil}, false,
		},
		"the package ends while tests run": {
			"start run:TestA pause:TestA run:TestB pause:TestB run:TestC pass:TestC cont:TestB run:TestD fail",
			outcome{1, 0, []string{"TestB, TestD: the test did not end"}, nil, nil}, false,
		},
		"the package ends while tests wait": {
			"start run:TestA pause:TestA run:TestB pass:TestB fail",
			outcome{1, 0, []string{": the package ended while its tests waited"}, nil, nil}, false,
		},
		"the package is killed after its tests": {
			"start run:TestA pass:TestA output:=signal:_killed fail",
			outcome{1, 0, []string{": the package failed without a failed test: signal: killed"}, nil, nil}, false,
		},
		"the run was cut off": {
			"start run:TestA pass:TestA",
			outcome{1, 0, []string{": the package did not end"}, nil, nil}, false,
		},
		"a program under test panics": {
			"start run:TestA output:TestA=x.go:1:_|_panic:_oh fail:TestA fail " + again,
			outcome{1, 0, []string{"TestA: panic"}, nil, rerun}, false,
		},
		"a passing test speaks of a panic": {
			"start run:TestA output:TestA=x.go:1:_no_panic:_oh pass:TestA pass", outcome{1, 0, nil, nil, nil}, true,
		},
		"a package without tests": {"start run:TestA pass:TestA pass start skip", outcome{1, 0, nil, nil, nil}, true},
		"only packages without tests": {
			"start skip", outcome{final: []string{": no test ran"}}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := judge(play(test.words))
			if got := v.outcome(); !reflect.DeepEqual(got, test.want) || v.ok() != test.ok {
				t.Errorf("the verdict is %+v, good: %v, want %+v, good: %v", got, v.ok(), test.want, test.ok)
			}
		})
	}
}

// The line that the verdict looks for is the one that internal/leak prints.
func TestLineOfNoLeak(t *testing.T) {
	source, err := os.ReadFile(filepath.Join("..", "internal", "leak", "leak.go"))
	if err != nil {
		t.Fatal(err)
	}
	if line := strings.Trim(noLeak.String(), "(?m)^$"); !strings.Contains(string(source), "const None = \""+line+"\"\n") {
		t.Errorf("leak.None is not %q", line)
	}
}

// The summary repeats the first and the last lines of the first failure, whose output may be
// far above, without those that say nothing about it. The last line counts the tests.
func TestPrintVerdict(t *testing.T) {
	var words strings.Builder
	words.WriteString("start run:TestA ")
	for _, line := range strings.Fields("a b c d e f g h i j k l m n") {
		words.WriteString("output:TestA====_RUN___TestA/" + line + " output:TestA=line_" + line + " ")
	}
	words.WriteString("fail:TestA fail start run:TestA output:TestA=later pass:TestA pass")
	var out strings.Builder
	judge(play(words.String())).print(&out, 3*time.Second)
	want := "test: reran: p TestA: " + chance + "\n" +
		"\tline a\n\tline b\n\tline c\n\tline d\n\tline e\n\tline f\n\t[…]\n" +
		"\tline i\n\tline j\n\tline k\n\tline l\n\tline m\n\tline n\n" +
		"test: 1 passed, 0 failed, 0 skipped, 1 of them ran again, in 3 s\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

// No test tells why a program has ended, so the summary repeats the last lines of all tests and of
// none.
func TestPrintEndedPackage(t *testing.T) {
	var words strings.Builder
	words.WriteString("start run:TestA pause:TestA run:TestB output:TestB=early ")
	var want strings.Builder
	want.WriteString("test: final: p TestB: the test did not end: signal: killed\n")
	for i := range (lastLines - 2) / 2 {
		fmt.Fprintf(&words, "output:TestA=line_%d output:=other_%d ", i, i)
		fmt.Fprintf(&want, "\tline %d\n\tother %d\n", i, i)
	}
	words.WriteString("output:=signal:_killed output:=FAIL fail")
	want.WriteString("\tsignal: killed\n\tFAIL\ntest: 0 passed, 1 failed, 0 skipped, 0 of them ran again, in 3 s\n")
	var out strings.Builder
	judge(play(words.String())).print(&out, 3*time.Second)
	if out.String() != want.String() {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want.String())
	}
}

func TestProgress(t *testing.T) {
	r := play("start run:TestA pass:TestA run:TestB pause:TestB run:TestC run:TestD pause:TestD cont:TestD run:TestC/sub")
	for _, test := range r.runs[0].tests {
		test.since = time.Unix(1, 0)
	}
	want := "0 packages and 1 tests have ended; p TestC 4 s, p TestD 4 s"
	if got := r.progress(time.Unix(5, 0)); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
