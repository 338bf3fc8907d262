package kube

import "testing"

func TestPackageName(t *testing.T) {
	for pkg, want := range map[string]string{
		"example.com/echo":          "echo",
		"example.com/echo/v2":       "echo",
		"example.com/echo/v12":      "echo",
		"example.com/tools/cmd/v1":  "v1", // no module has the suffix v1
		"example.com/tools/cmd/v2x": "v2x",
		"v2":                        "v2",
		"command-line-arguments":    "", // go run main.go
		"":                          "",
	} {
		if got := packageName(pkg); got != want {
			t.Errorf("the program of %q: got %q, want %q", pkg, got, want)
		}
	}
}

// The name of the file does not count: that of this test ends with .test.
func TestProgramName(t *testing.T) {
	if got := programName(); got != "kube" {
		t.Errorf("got %q, want kube", got)
	}
}
