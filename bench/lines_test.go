package main

import "testing"

func TestCodeLines(t *testing.T) {
	for text, want := range map[string]int{
		"":                                  0,
		"\n\n  \t\n":                        0,
		"// a comment\n\nx := 1 // another": 1,
		"/* one\ntwo\n*/\nx()\n":            1,
		"x() /* one\ntwo */ y()\n":          2,
		"/* one */ x()\n":                   1,
		"x := \"http://a\" + `/*`\ny()\n":   2,
		"x := \"a\\\"//\"\ny()\n":           2,
		"x := `\n// text\n\n`\ny()\n":       5,
		"a('\"') // \"\nb()\n":              2,
		"a('\\\"')\nb()\n// c\n":            2,
		"fn f<'a>(x: &'a str) {\n}\n":       2,
		"//! A crate.\n#[derive(Debug)]\n":  1,
		"/* never closed\nx()":              0,
	} {
		if got := codeLines(text); got != want {
			t.Errorf("%d lines of code, want %d, in\n%s", got, want, text)
		}
	}
}

func TestYAMLLines(t *testing.T) {
	if got := yamlLines("---\n# a comment\na: 1 # and one\n\n  # indented\nb:\n- 2\n"); got != 4 {
		t.Errorf("%d lines, want 4", got)
	}
}

// The sources of all operators are found, and none is nearly empty.
func TestEchoSources(t *testing.T) {
	for name, s := range echoSources {
		written, err := countLines(s.written)
		if err != nil {
			t.Fatal(err)
		}
		generated, err := countLines(s.generated)
		if err != nil {
			t.Fatal(err)
		}
		if written < 100 || len(s.generated) > 0 && generated < 100 {
			t.Errorf("%s: %d lines by hand, %d generated", name, written, generated)
		}
		t.Logf("%s: %d lines by hand, %d generated", name, written, generated)
	}
}
