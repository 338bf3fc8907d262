package kube_test

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestCapability compiles a package whose lines with a "want" comment are errors.
func TestCapability(t *testing.T) {
	source := string(got(os.ReadFile("testdata/capability/capability.go"))(t))
	out, err := exec.CommandContext(t.Context(), "go", "build", "-gcflags=-e", "./testdata/capability").CombinedOutput()
	if err == nil {
		t.Fatal("it compiles")
	}
	errors := make(map[int]string) // by line
	for _, m := range regexp.MustCompile(`capability\.go:(\d+):\d+: (.*)`).FindAllStringSubmatch(string(out), -1) {
		errors[got(strconv.Atoi(m[1]))(t)] = m[2]
	}
	wanted := 0
	for i, line := range strings.Split(source, "\n") {
		_, want, isWanted := strings.Cut(line, `// want "`)
		want = strings.TrimSuffix(want, `"`)
		text, failed := errors[i+1]
		switch {
		case isWanted && !strings.Contains(text, want):
			t.Errorf("line %d should not compile, for %q; it says %q", i+1, want, text)
		case !isWanted && failed:
			t.Errorf("line %d: %s", i+1, text)
		case isWanted:
			wanted++
		}
	}
	if wanted == 0 {
		t.Errorf("nothing was found wrong:\n%s", out)
	}
}
