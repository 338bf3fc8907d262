package main

import (
	"slices"
	"strings"
	"testing"
)

func TestMessages(t *testing.T) {
	dir := write(t, map[string]string{
		"a.go": `package a

import (
	"errors"
	"fmt"
	"log/slog"
)

func f(err error) error {
	slog.Info("a line " +
		"of the log", "key", 1)
	_ = errors.New("a plain error")
	const other = "another text"
	return fmt.Errorf("open %q on port %d: "+err.Error()+": %w", "x", 1, err)
}
`,
		"a_test.go":          "package a\n\nconst text = \"only in a test\"\n",
		"other/go.mod":       "module other\n",
		"other/b.go":         "package b\n\nconst text = \"only in another module\"\n",
		"testdata/c.go":      "package c\n\nconst text = \"only in test data\"\n",
		"below/d.go":         "package d\n\nconst text = `below`\n",
		"below/not-go.txt":   "only in a text file",
		".hidden/hidden.go":  "package e\n\nconst text = \"only in a hidden directory\"\n",
		"below/generated.md": "# only in a document",
	})
	all, err := readMessages(dir)
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, m := range all {
		if m.shown {
			shown = append(shown, m.text)
		}
		if strings.Contains(m.text, "only in") {
			t.Errorf("%s: %q is no message of the module", m.at, m.text)
		}
	}
	want := []string{"a line of the log", "key", "a plain error", "open … on port …: …: …", "x"}
	if !slices.Equal(shown, want) {
		t.Errorf("got %q, want %q", shown, want)
	}

	doc := "# Title\n\n## `section`\n\n### `open … on port …`\n\ntext `code`\n\n### No message\n\n### `another text`\n\n### `gone`\n### `…`\n"
	quotes := quotedMessages(doc)
	if want := []string{"open … on port …", "another text", "gone", "…"}; !slices.Equal(quotes, want) {
		t.Fatalf("got %q, want %q", quotes, want)
	}
	if err := missingMessages(quotes[:2], all); err != nil {
		t.Error(err)
	}
	err = missingMessages(quotes, all)
	if err == nil || !strings.Contains(err.Error(), `"gone"`) || !strings.Contains(err.Error(), `"…"`) ||
		strings.Contains(err.Error(), "open") {
		t.Errorf("got %v", err)
	}
}

// An error that names a thing to do is explained in the document.
func TestUnexplainedMessages(t *testing.T) {
	say := func(text string) message { return message{text: text, shown: true} }
	quotes := []string{"the plural of … is not known: declare it with kube.Kind", "… it is gone: make another"}
	for text, want := range map[string]bool{
		"list: the plural of … is not known: declare it with kube.Kind": false,
		"list: the plural of … is not known":                            false,
		"the cluster runs: end it first":                                true,
		"look for name; give it one":                                    true,
		"plan: write object: …":                                         false,
		"set …: write metrics …: …":                                     false,
		"it is gone: make another":                                      false,
	} {
		if err := unexplained(quotes[1:], []message{say(text)}); (err != nil) != want && !strings.Contains(text, "plural") {
			t.Errorf("%q: %v", text, err)
		}
		if err := unexplained(quotes, []message{{text: text}}); err != nil {
			t.Errorf("%q is in no error: %v", text, err)
		}
	}
	plural := say("the plural of … is not known: declare it with kube.Kind")
	if err := unexplained(quotes, []message{plural}); err != nil {
		t.Error(err)
	}
	if err := unexplained(nil, []message{plural}); err == nil {
		t.Error("a message that no document quotes passes")
	}
}
