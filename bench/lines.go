package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// sources are the files of an Echo operator.
type sources struct {
	written   []string // by hand
	generated []string // beside them
}

// echoSources names the sources of the three Echo operators, relative to the bench.
var echoSources = map[string]sources{
	peerEcho: {
		written:   []string{"peerecho/main.go", "peerecho/reconcile.go", "peerecho/api/echo.go"},
		generated: []string{peerEchoDeepcopy, peerEchoCRD},
	},
	kubersEcho: {written: []string{"kubersecho/src/main.rs"}},
	oursEcho:   {written: []string{"../operators/echo/main.go"}},
}

// The files that controller-gen makes.
const (
	peerEchoDeepcopy = "peerecho/api/zz_generated.deepcopy.go"
	peerEchoCRD      = "peerecho/crd/example.com_echoes.yaml"
)

// countLines returns the number of lines of code in files.
func countLines(files []string) (int, error) {
	n := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return 0, fmt.Errorf("count lines: %w", err)
		}
		if filepath.Ext(file) == ".yaml" {
			n += yamlLines(string(text))
		} else {
			n += codeLines(string(text))
		}
	}
	return n, nil
}

// yamlLines counts the lines that are neither empty nor only a comment.
func yamlLines(text string) int {
	n := 0
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			n++
		}
	}
	return n
}

// codeLines counts the lines of Go or Rust that hold more than space and comments.
func codeLines(text string) int {
	n, code := 0, false
	for i := 0; i < len(text); {
		rest := text[i:]
		length := 1
		switch {
		case strings.HasPrefix(rest, "//"):
			length = until(rest, "\n") // the end of the line is the next case
		case strings.HasPrefix(rest, "/*"):
			length = until(rest, "*/") + len("*/")
			if code && strings.Contains(rest[:min(length, len(rest))], "\n") {
				n, code = n+1, false
			}
		case rest[0] == '\n':
			if code {
				n++
			}
			code = false
		case rest[0] == '"', rest[0] == '`',
			strings.HasPrefix(rest, `'"'`), strings.HasPrefix(rest, "'`'"), strings.HasPrefix(rest, `'\`):
			length = literal(rest)
			n += strings.Count(rest[:length], "\n") // no line of a literal is a comment
			code = true
		case rest[0] != ' ' && rest[0] != '\t' && rest[0] != '\r':
			code = true
		}
		i += length
	}
	if code {
		n++
	}
	return n
}

// until returns the number of bytes before a mark, or all.
func until(s, mark string) int {
	if i := strings.Index(s, mark); i >= 0 {
		return i
	}
	return len(s)
}

// literal returns the length of the literal at the beginning of s: a quote as a character,
// or a string. In a string within backquotes a backslash is a character like any other.
func literal(s string) int {
	quote := s[0]
	if quote == '\'' {
		return min(until(s[1:], "'")+len("''"), len(s)) // of '\'' a quote is left, which is code too
	}
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && quote != '`':
			i++
		case s[i] == quote:
			return i + 1
		}
	}
	return len(s)
}
