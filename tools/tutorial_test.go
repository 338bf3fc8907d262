package main

import (
	"os"
	"strings"
	"testing"
)

func TestPatched(t *testing.T) {
	const text = "a\n\tb\nc\nd\n\nc\n"
	for diff, want := range map[string]string{
		" a\n-\tb\n+\tB\n c":                   "a\n\tB\nc\nd\n\nc\n",
		"+first\n a":                           "first\na\n\tb\nc\nd\n\nc\n",
		" d\n\n+x\n c":                         "a\n\tb\nc\nd\n\nx\nc\n",
		"-a\n@@\n d\n+e":                       "\tb\nc\nd\ne\n\nc\n",
		" a\n+x\n…\n \tb\n+y":                  "a\nx\n\tb\ny\nc\nd\n\nc\n",
		" c\n+x":                               "these lines stand in it 2 times",
		" b\n+x":                               "these lines stand in it 0 times", // it begins with a tab there
		"+x":                                   "these lines stand in it",
		"x":                                    "no line of a diff",
		" a\n+x\n@@\n a\n x\n+y\n@@\n-nothing": "these lines stand in it 0 times",
	} {
		got, err := patched(text, diff)
		if err != nil {
			got = err.Error()
		}
		if got != want && (err == nil || !strings.HasPrefix(got, want)) {
			t.Errorf("%q: got %q, want %q", diff, got, want)
		}
	}
}

func TestPrinted(t *testing.T) {
	const output = "one\n  two   2\nthree in 1.5 s (quick)\nfour\n"
	for shown, ok := range map[string]bool{
		"one":                      true,
		"one\ntwo 2":               true,
		"one\n…\nfour":             true,
		"three in … s (quick)":     true,
		"two 2\none":               false, // the order counts
		"two":                      false, // lines are whole
		"three in … s (quickly)":   false,
		"one\none":                 false,
		"three in 1?5 s (quick)":   false,
		"one\n\n  two 2\n\nfour\n": true,
	} {
		if err := printed(output, shown); (err == nil) != ok {
			t.Errorf("%q: %v", shown, err)
		}
	}
}

func TestSteps(t *testing.T) {
	for marker, lang := range map[string]string{
		"tutorial run": "sh", "tutorial run after stop": "sh", "tutorial fails": "sh", "tutorial fails after stop": "sh",
		`tutorial terminal until "it runs"`: "sh", "tutorial output": "text", "tutorial file a/b.go": "go",
		"tutorial edit b.go": "diff", `tutorial edit b.go until "x"`: "diff",
	} {
		if _, err := (snippet{doc: tutorialDoc, marker: marker, lang: lang}).asStep(); err != nil {
			t.Errorf("%s: %v", marker, err)
		}
		if _, err := (snippet{doc: "README.md", marker: marker, lang: lang}).asStep(); err == nil {
			t.Errorf("%s is legal in another document", marker)
		}
		if _, err := (snippet{doc: tutorialDoc, marker: marker, lang: "python"}).asStep(); err == nil && lang != "go" {
			t.Errorf("%s is legal in another language", marker)
		}
	}
	for _, wrong := range []string{
		"tutorial", "tutorial walk", "tutorial terminal", "tutorial file", "tutorial file ../x", "tutorial file /x", `tutorial run until "x"`,
	} {
		for _, lang := range []string{"sh", "go", "text", "diff"} {
			if _, err := (snippet{doc: tutorialDoc, marker: wrong, lang: lang}).asStep(); err == nil {
				t.Errorf("%s is legal", wrong)
			}
		}
	}
}

// TestReader follows a small tutorial.
func TestReader(t *testing.T) {
	fence := "```"
	text := strings.NewReplacer("FENCE", fence).Replace(`
<!-- snippet: tutorial run -->
FENCEsh
mkdir project
cd project
touch go.mod
word=hello
say() { echo "$word, $1"; }
FENCE

<!-- snippet: tutorial file x.go -->
FENCEgo
package x

const A = 1
FENCE

<!-- snippet: tutorial terminal until "watching 1" -->
FENCEsh
cd project
while :; do echo "watching $(grep -c A x.go)"; sleep 0.05; done
FENCE

<!-- snippet: tutorial edit x.go until "watching 2" -->
FENCEdiff
 const A = 1
+const B = A
FENCE

<!-- snippet: tutorial run after stop -->
FENCEsh
say "$(grep -c A x.go)"
FENCE

<!-- snippet: tutorial output -->
FENCEtext
hello, 2
FENCE

<!-- snippet: tutorial fails -->
FENCEsh
say so
false
FENCE
`)
	good, err := readTutorial(text)
	if err != nil {
		t.Fatal(err)
	}
	follow := func(steps []step) error {
		t.Helper()
		r := &reader{dir: t.TempDir(), env: os.Environ()}
		var err error
		if r.first, err = openTerminal(r.dir, r.env); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := r.first.close(); err != nil {
				t.Error(err)
			}
			if err := r.stop(); err != nil {
				t.Error(err)
			}
		}()
		for _, s := range steps {
			if err := r.do(t.Context(), s); err != nil {
				return err
			}
		}
		return nil
	}
	if err := follow(good); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func([]step){
		"the output has no line":         func(s []step) { s[5].text = "hello, 3" },
		"a command has ended its shell":  func(s []step) { s[4].text = "false" },
		"the commands succeed":           func(s []step) { s[6].text = "true" },
		"is not formatted":               func(s []step) { s[1].text = "package x\nconst  A = 1" },
		"parse x.go":                     func(s []step) { s[1].text = "no package" },
		"these lines stand in it 0":      func(s []step) { s[3].text = " const C = 1\n+const B = A" },
		"the second terminal is in use":  func(s []step) { s[4] = s[2] },
		"there is no second terminal to": func(s []step) { s[2] = s[0]; s[2].text = "true" },
	} {
		steps := append([]step(nil), good...)
		change(steps)
		if err := follow(steps); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
