package main

import (
	"errors"
	"testing"
)

func TestSnippets(t *testing.T) {
	root := write(t, map[string]string{
		"book/main.go": "package main\n\nfunc main() {\n\tfor {\n\t\tprint(1)\n\t}\n}\n",
		".ci/run":      "#!/bin/bash\nstep test 40 make test\n# make lint is for another day\nstep run 5 make run ONCE=1\n",
	})
	const program = "```go\npackage main\n\nfunc main() {}\n```\n"
	tests := map[string]struct {
		text string
		run  bool
		want error
	}{
		"whole program":           {program, true, nil},
		"fragment":                {"```go\nx := 1\n```\n", false, errUnmarked},
		"another package":         {"```go\npackage kube\n```\n", false, errUnmarked},
		"shell without a comment": {"```sh\nmake\n```\n", false, errUnmarked},
		"text":                    {"```\nanything\n```\n", false, nil},
		"comment far away":        {"<!-- snippet: run -->\n\nwords\n\n```sh\nmake\n```\n", false, errUnmarked},
		"comment before a gap":    {"<!-- snippet: run -->\n\n```sh\nmake\n```\n", true, nil},
		"part of a file":          {"<!-- snippet: book/main.go -->\n```go\nfor {\n\tprint(1)\n}\n```\n", false, nil},
		"changed part of a file": {
			"<!-- snippet: book/main.go -->\n```go\nfor {\n\tprint(2)\n}\n```\n",
			false,
			errNotFound,
		},
		"lines apart in the file":  {"<!-- snippet: book/main.go -->\n```go\nfor {\n}\n```\n", false, errNotFound},
		"shell that runs":          {"<!-- snippet: run -->\n```sh\nmake\n```\n", true, nil},
		"run until":                {"<!-- snippet: run until \"a b\" -->\n" + program, true, nil},
		"run until without quotes": {"<!-- snippet: run until a -->\n" + program, false, errMarker},
		"run while":                {"<!-- snippet: run while -->\n" + program, false, errMarker},
		"run what is no program":   {"<!-- snippet: run -->\n```go\nx := 1\n```\n", false, errMarker},
		"shown": {
			"<!-- snippet: shown, it needs a release -->\n```sh\ngo run x@VERSION\n```\n",
			false,
			nil,
		},
		"shown for no reason": {"<!-- snippet: shown, -->\n```sh\nmake\n```\n", false, errMarker},
		"go that is shown":    {"<!-- snippet: shown, because -->\n```go\nx := 1\n```\n", false, errMarker},
		"in CI": {
			"<!-- snippet: ci -->\n```sh\nmake test # all of it\nmake run ONCE=1\n```\n",
			false,
			nil,
		},
		"not in CI":                 {"<!-- snippet: ci -->\n```sh\nmake lint\n```\n", false, errNotInCI},
		"part of a command in CI":   {"<!-- snippet: ci -->\n```sh\nmake run\n```\n", false, errNotInCI},
		"a longer fence":            {"````\n```go\nx := 1\n```\n````\n", false, nil},
		"a comment about one block": {"<!-- snippet: run -->\n```sh\nmake\n```\n\n```sh\nmake\n```\n", false, errUnmarked},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			all := readSnippets("x.md", test.text)
			if len(all) == 0 {
				t.Fatal("found no block")
			}
			run, err := all[len(all)-1].check(root)
			if run != test.run || !errors.Is(err, test.want) {
				t.Errorf("got run %v, error %v; want %v, %v", run, err, test.run, test.want)
			}
		})
	}
}

func TestSnippetOfAMissingFile(t *testing.T) {
	s := readSnippets("x.md", "<!-- snippet: gone.go -->\n```go\nx := 1\n```\n")[0]
	if _, err := s.check(t.TempDir()); err == nil {
		t.Error("got no error")
	}
}

func TestUntil(t *testing.T) {
	tests := map[string]string{
		`run`: "", `run until`: "", `run until ""`: "", `run until a`: "", `run until "a`: "", `run until "a b"`: "a b",
	}
	for marker, want := range tests {
		if got, ok := (snippet{marker: marker}).until(); got != want || ok != (want != "") {
			t.Errorf("%s: got %q, %v", marker, got, ok)
		}
	}
}
