package optest

import (
	"os"
	"strings"
	"testing"
)

// IsShort checks that a source file has at most some lines of code below its imports, and
// no line over 120 columns.
func IsShort(t *testing.T, file string, most int) {
	t.Helper()
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, below, found := strings.Cut(string(source), "\n)\n")
	n := 0
	for line := range strings.Lines(below) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "// ") {
			n++
		}
	}
	for line := range strings.Lines(string(source)) {
		if n := len(strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\t", "    ")); n > 120 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if !found || n > most {
		t.Errorf("%d lines", n)
	}
}
