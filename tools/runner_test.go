package main

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestRunner(t *testing.T) {
	tests := map[string]struct {
		script, until string
		timeout       time.Duration
		want          string // part of the error, "" for none
	}{
		"ends well":             {"echo hello", "", time.Minute, ""},
		"ends badly":            {"exit 3", "", time.Minute, "exit status 3"},
		"prints and goes on":    {"echo ready; exec sleep 100", "ready", time.Minute, ""},
		"prints piece by piece": {"printf re; sleep 0.1; printf ady; exec sleep 100", "ready", time.Minute, ""},
		"ends without printing": {"echo other", "ready", time.Minute, "without printing"},
		"never prints":          {"sleep 100 & wait", "ready", 2 * time.Second, "after 2s"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := runner{dir: t.TempDir(), env: os.Environ(), timeout: test.timeout}
			_, err := r.runUntil(t.Context(), test.until, "sh", "-c", test.script)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
