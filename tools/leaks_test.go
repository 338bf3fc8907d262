package main

import (
	"strings"
	"testing"
)

func TestGoroutinesNeedALeakCheck(t *testing.T) {
	const (
		plain   = "package p\n\nfunc F() {}\n"
		starts  = "package p\n\nfunc F() {\n\tgo func() {}()\n}\n"
		main    = "package p\n\nfunc TestMain(m *testing.M) { goleak.VerifyTestMain(m) }\n"
		ours    = "package p\n\nfunc TestMain(m *testing.M) { os.Exit(leak.Run(m)) }\n"
		other   = "package p\n\nfunc TestMain(m *testing.M) { os.Exit(m.Run()) }\n"
		elsewhe = "package p\n\nfunc TestF(t *testing.T) { goleak.VerifyNone(t) }\n"
	)
	tests := map[string]struct {
		files map[string]string
		want  string // part of the problem, "" for none
	}{
		"no goroutines":          {map[string]string{"p.go": plain}, ""},
		"checked":                {map[string]string{"p.go": starts, "p_test.go": main}, ""},
		"checked by ours":        {map[string]string{"p.go": starts, "p_test.go": ours}, ""},
		"no tests":               {map[string]string{"p.go": starts}, "no TestMain"},
		"another TestMain":       {map[string]string{"p.go": starts, "p_test.go": other}, "no TestMain"},
		"checked in one test":    {map[string]string{"p.go": starts, "p_test.go": elsewhe}, "no TestMain"},
		"TestMain not in a test": {map[string]string{"p.go": starts, "q.go": main}, "no TestMain"},
		"only tests start one":   {map[string]string{"p.go": plain, "p_test.go": starts}, "no TestMain"},
		"WaitGroup.Go":           {map[string]string{"p.go": "package p\n\nfunc F() { wg.Go(f) }\n"}, "no TestMain"},
		"time.AfterFunc": {
			map[string]string{"p.go": "package p\n\nfunc F() { time.AfterFunc(d, f) }\n"}, "no TestMain",
		},
		"a Go of another shape":   {map[string]string{"p.go": "package p\n\nfunc F() { x.Go(a, b) }\n"}, ""},
		"exempt with a reason":    {map[string]string{"p.go": starts + "\n//leaks:exempt it runs Kubernetes\n"}, ""},
		"exempt without a reason": {map[string]string{"p.go": starts + "\n//leaks:exempt\n"}, "without a reason"},
		"exempt and checked": {
			map[string]string{"p.go": starts + "\n//leaks:exempt why\n", "p_test.go": main},
			"although",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p, err := readGoroutines(write(t, test.files))
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if len(p.starts) > 0 {
				got = p.problem()
			}
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("got problem %q, want %q (starts %v)", got, test.want, p.starts)
			}
		})
	}
}

// write makes a directory with files.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	if err := writeFiles(dir, files); err != nil {
		t.Fatal(err)
	}
	return dir
}
