package main

import (
	"strings"
	"testing"
)

func TestIsLate(t *testing.T) {
	for output, want := range map[string]bool{
		"a_test.go:1: wait until x is ready: context deadline exceeded\n":                       true,
		"a_test.go:1: it did not happen in 2m0s that postgres answers\n":                        true,
		"a_test.go:1: wait until it rains: not within 3m0s; last seen: sun\n":                   true,
		"a_test.go:1: it is not so that the replica is ready\n":                                 true,
		"a_test.go:1: not within 1m30s: it is said\n| connect: i/o timeout\n":                   true,
		"a_test.go:1: the node is not ready within 5m0s\n":                                      false,
		"a_test.go:1: got 1, want 2\n    optest.go:95: foo: list: context deadline exceeded\n":  false,
		"a_test.go:1: got 1, want 2\n":                                                          false,
		"a_test.go:1: got 1, want 2\n    a_test.go:9: its log:\n        | dial: i/o timeout\n":  false,
		"a_test.go:1: context deadline exceeded\nWARNING: DATA RACE\n":                          false,
		"a_test.go:1: context deadline exceeded\npanic: oh\n":                                   false,
		"a_test.go:1: context deadline exceeded\nfound unexpected goroutines:\n[Goroutine 7]\n": false,
	} {
		if isLate(output) != want {
			t.Errorf("%q: want %v", output, want)
		}
	}
}

// Tests that fail at a deadline run again alone. All other failures are final.
func TestLateTests(t *testing.T) {
	const head = "package m\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\n"
	// fails at the first time that it runs in a directory, with a text
	once := func(name, text string) string {
		return "func " + name + `(t *testing.T) {
	if _, err := os.Stat("` + name + `"); err != nil {
		_ = os.WriteFile("` + name + `", nil, 0o644)
		t.Fatal("` + text + `")
	}
}
`
	}
	always := "func TestAlways(t *testing.T) {\n\tif _, err := os.Stat(\".\"); err == nil {\n\t\tt.Fatal(\"context deadline exceeded\")\n\t}\n}\n"
	late := "context deadline exceeded"
	for name, test := range map[string]struct {
		workspace, beside string
		fails             bool
	}{
		"three":          {once("TestA", late) + once("TestB", late), once("TestC", late), false},
		"four":           {once("TestA", late) + once("TestB", late) + once("TestC", late), once("TestD", late), true},
		"another reason": {once("TestA", "got 1, want 2"), "", true},
		"late again":     {always, "", true},
		"a package's":    {once("TestA", late), "func TestMain(m *testing.M) { m.Run(); os.Exit(1) }\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := write(t, map[string]string{
				"go.mod": "module example.com/m\n\ngo 1.26\n", "m.go": "package m\n",
				"m_test.go": head + test.workspace + "\nvar _ = os.Args\n\nfunc TestNothing(*testing.T) {}\n",
				"b/go.mod":  "module example.com/m/b\n\ngo 1.26\n", "b/m.go": "package m\n",
				"b/m_test.go": head + test.beside + "\nvar _ = os.Args\n\nfunc TestNothing(*testing.T) {}\n",
			})
			err := runTests(t.Context(), &Repo{Dir: dir}, []string{"-beside=b", "./..."})
			if (err != nil) != test.fails {
				t.Errorf("got %v", err)
			}
		})
	}
}

// The summary shows the first failure of a test that passed alone.
func TestSummaryOfLateTests(t *testing.T) {
	var out strings.Builder
	p := newProgress(&out)
	id := testID{prefix + "/kube", "TestA"}
	p.handle(event{Action: "output", Package: id.pkg, Test: id.test, Output: "context deadline exceeded\n"})
	p.handle(event{Action: "fail", Package: id.pkg, Test: id.test})
	p.late, p.failed = p.failed, nil
	out.Reset()
	p.summary()
	if got := out.String(); !strings.HasPrefix(got, "test: late: passed alone") || !strings.Contains(got, "\tcontext deadline") {
		t.Errorf("the summary is %q", got)
	}
}
