package main

import (
	"strings"
	"testing"
)

// A fault in a file for macOS is found, and so is an import of a package that has no such file. A
// package for Linux only is left out.
func TestTypesForMac(t *testing.T) {
	dir := write(t, map[string]string{
		"go.mod":                 "module example.com/m\n\ngo 1.26\n",
		"right/right.go":         "package right\n\nimport \"fmt\"\n\nvar S = fmt.Sprint(1)\n",
		"right/right_windows.go": "package right\n\nvar Wrong int = \"\"\n",
		"linux/a_linux.go":       "package linux\n\nvar A int\n",
		"wrong/a_darwin.go":      "package wrong\n\nvar A int = \"\"\n",
		"wrong/a_linux.go":       "package wrong\n\nvar A int\n",
		"imports/a.go":           "package imports\n\nimport \"example.com/m/linux\"\n\nvar A = linux.A\n",
	})
	env := []string{"GOWORK=off", "GOFLAGS=", "GOOS=darwin", "GOARCH=arm64", "CGO_ENABLED=0"}
	if n, err := checkTypes(t.Context(), dir, env, []string{"./right", "./linux"}); err != nil || n != 1 {
		t.Errorf("of a right package and one for Linux %d are checked: %v", n, err)
	}
	for name, want := range map[string]string{"./wrong": "a_darwin.go:3", "./imports": "example.com/m/linux"} {
		if _, err := checkTypes(t.Context(), dir, env, []string{name}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error about %s", name, err, want)
		}
	}
}
