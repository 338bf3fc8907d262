package main

import (
	"strings"
	"testing"
)

//english:exempt the strings of this file are examples of wrong text

func TestHeadlessClauses(t *testing.T) {
	wrong := []string{
		"What fails is tried again.",
		"It drops what nobody asked for.",
		"Who makes objects must own them.",
		"It hands on what two snapshots differ in,",
		"The loop yields what changed.",
		"Whoever holds the lease acts.",
		"It accepts whatever the server sends.",
		"That which is gone stays gone.",
		"It prints what a cluster needs to run it:",
		"The answer is what it was.",
		"A list of what is there",
		"what it costs",
		"It logs who asked, and why.",
		"Nothing else than what was written is read.",
		"The cache keeps what the index needs. The rest is dropped.",
		"Is it ready? What is not ready is awaited.",
		"It compares what is stored (what the API server has) with the cache.",
		"the server decides who may read metrics",
		"For what there is to do, see Run.",
		"A store is asked by who runs it.",
		"The type says what it can do.",
		"It returns the user. Who wrote the object is not known.",
		"See e.g. what is in wire.go for that.",
	}
	right := []string{
		"A failed reconcile is retried.",
		"It drops the fields that no caller reads.",
		"A user who creates objects owns them.",
		"People who run operators read this.",
		"Somebody else who writes the field wins.",
		"The person to whom it belongs is unknown.",
		"A reader, who may be new to Kubernetes, finds it here.",
		"What happens if the server restarts?",
		"See \"What works\" in the README.",
		"The column `what` is optional.",
		"What is it? A Deployment.",
		"Those who run it as root are warned.",
		"It says what kind of object changed.",
		"It tells what type the field has.",
		"Everybody who reaches the port can ask.",
		"The one who holds the lease reconciles.",
		"The result is the same in any order.",
		"A whole is somewhat larger than its part.",
		"The wholesale price is known.",
		"That the object is gone is no error.",
		"An operator who reads the log sees it.",
		"Callers who pass nil, and who ignore the error, get a panic.",
		"It returns the objects that changed.",
		"",
	}
	for _, text := range wrong {
		if len(headless(text)) == 0 {
			t.Errorf("no headless clause is found in %q", text)
		}
	}
	for _, text := range right {
		if at := headless(text); len(at) > 0 {
			t.Errorf("a headless clause is found in %q, at %q", text, text[at[0]:])
		}
	}
}

func TestEnglishOfGoFiles(t *testing.T) {
	long := "// " + strings.Repeat("word ", 30) + "\n"
	tests := map[string]struct {
		src  string
		want []string // parts of the findings, in their order
	}{
		"nothing":    {"// Package p is short.\npackage p\n", nil},
		"one clause": {"// Package p does what it must.\npackage p\n", nil},
		"two clauses": {
			"// Package p does\n// what it must.\npackage p\n\nvar x int // what it counts\n",
			[]string{"f.go:2: headless", "f.go:5: headless", "66.67% of the lines"},
		},
		"over two lines": {
			"// Package p is what\n// it is. Who\n// knows?\npackage p\n\n// Who knows.\nvar x int\n",
			[]string{"f.go:1: headless", "f.go:6: headless", "%"},
		},
		"a directive": {
			"// Package p is.\npackage p\n\n//nolint:errcheck // what is it\n//go:generate what\nvar x int\n\n// Is what.\nvar y int\n",
			nil,
		},
		"code": {"// Package p is used so:\n//\n//\twhat(x)\n//\twhat(y)\npackage p\n", nil},
		"a list": {
			"// Package p:\n//\n//   - what it does\n//     is short\n//   - what it\n//     costs\npackage p\n",
			[]string{"f.go:3:", "f.go:5:", "%"},
		},
		"a block": {
			"/*\nPackage p is what\nis.\n\nWhat else.\n*/\npackage p\n", []string{"f.go:2:", "f.go:5:", "%"},
		},
		"an old word": {"// Package p is made anew.\npackage p\n", []string{`f.go:1: " made anew": use "recreated"`}},
		"in a literal": {
			"package p\n\nconst x = \"it has not the uid\"\n",
			[]string{`f.go:3: "has not the": use "does not have"`},
		},
		"clauses in literals": {
			"package p\n\nconst x = \"it drops what nobody uses\"\nconst y = \"who asked is unknown\"\n",
			[]string{"f.go:3: headless", "f.go:4: headless", "100.00% of the lines"},
		},
		"a key":          {"package p\n\nvar x = []string{\"anew\", \"default/anew\"}\n", nil},
		"exempt":         {"package p\n\n//english:exempt they are examples\n\nconst x = \"it has not the uid\"\n", nil},
		"a long comment": {long + "package p\n", []string{"f.go:1: the line has more than 120 columns"}},
		"a long link":    {strings.Replace(long, "word", "https://example.com/x", 1) + "package p\n", nil},
		"long with tabs": {
			"package p\n\nfunc f() {\n\t\t\t// " + strings.Repeat("x", 108) + "\n}\n",
			[]string{"f.go:4: the line"},
		},
		"long code": {"// Package p is:\n//\n//\t" + strings.Repeat("x ", 80) + "\npackage p\n", nil},
		"an output": {
			"package p\n\nfunc f() {\n\t// Output:\n\t// what\n\t// what " + strings.Repeat("x ", 80) + "\n}\n",
			nil,
		},
		"long, not a text": {"package p\n\nvar x = \"" + strings.Repeat("x", 200) + "\"\n", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			text, err := readGo([]byte(test.src))
			if err != nil {
				t.Fatal(err)
			}
			wantProblems(t, "f.go", text, test.want)
		})
	}
}

func TestEnglishOfDocuments(t *testing.T) {
	tests := map[string]struct {
		src  string
		want []string
	}{
		"text":       {"# What it is\n\nIt does what\nit must.\n\nMore.\n", []string{"f.md:1:", "f.md:3:", "%"}},
		"one clause": {"# Title\n\nIt does what it must.\n", nil},
		"code":       {"It:\n\n```sh\nwhat is it\nwhat else\n```\n\n`what is` and `what was`\n", nil},
		"long fence": {"````md\n```\nwhat\n```\nwhat\n````\n", nil},
		"comments":   {"<!-- what is it -->\n\n<!--\nwhat\nwhat\n-->\n\nText.\n", nil},
		"table":      {"| a | what it does |\n| --- | --- |\n| b | what it costs |\n", []string{"f.md:1:", "f.md:3:", "%"}},
		"cells":      {"| what? | what? |\n| --- | --- |\n| a | b |\n", nil},
		"list":       {"- what it does\n- what it\n  costs\n", []string{"f.md:1:", "f.md:2:", "%"}},
		"a long one": {strings.Repeat("word ", 30) + "\n", []string{"f.md:1: the line"}},
		"a link":     {strings.Repeat("word ", 30) + "[x](y)\n", nil},
		"a long row": {"| " + strings.Repeat("word ", 30) + " |\n", nil},
		"old words":  {"It ails, and\nis known of.\n", []string{`f.md:1: "ails"`, `f.md:2: "is known of"`}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			wantProblems(t, "f.md", readMarkdown(test.src), test.want)
		})
	}
}

// A few headless clauses among many lines are allowed.
func TestShareOfHeadlessClauses(t *testing.T) {
	u := &unit{name: "p"}
	u.read("f.md", readMarkdown(strings.Repeat("A line.\n", 98)+"\nwhat it is\n\nwhat it was\n"))
	if found := u.problems(); u.lines != 100 || len(u.headless) != 2 || len(found) > 0 {
		t.Errorf("with 2 of %d lines: %v", u.lines, found)
	}
	u.read("g.md", readMarkdown("what it will be\n"))
	if found := u.problems(); len(found) != 4 {
		t.Errorf("with 3 of %d lines: %v", u.lines, found)
	}
}

func wantProblems(t *testing.T, file string, text prose, want []string) {
	t.Helper()
	u := &unit{name: "p"}
	u.read(file, text)
	found := u.problems()
	if len(found) != len(want) {
		t.Errorf("got %q, want %q", found, want)
		return
	}
	for i, err := range found {
		if !strings.Contains(err.Error(), want[i]) {
			t.Errorf("got %q, want %q", err, want[i])
		}
	}
}
