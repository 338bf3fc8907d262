package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// checkSnippets checks the code blocks of the Markdown files. A comment on the line
// before a block says how the block is checked:
//
//	<!-- snippet: operators/book/main.go -->  these lines stand in that file
//	<!-- snippet: run -->                     run it; it has to end with status 0
//	<!-- snippet: run until "text" -->        run it; it has to print text, and is then stopped
//	<!-- snippet: ci -->                      each line is a command of .ci/run
//	<!-- snippet: shown, WHY -->              not run, for the reason given
//	<!-- snippet: tutorial STEP -->           make stranger does it, see tutorial.go
//
// A go block without a comment has to be a whole program, and is run. Every go and sh
// block is one of these; a go block is never just shown. Programs and commands run in the
// repository's root. KUBECONFIG is set to a cluster of their own.
func checkSnippets(ctx context.Context, repo *Repo, args []string) error {
	flags := flag.NewFlagSet("snippets", flag.ContinueOnError)
	static := flags.Bool("static", false, "compile programs but start no cluster and run nothing")
	if err := flags.Parse(args); err != nil {
		return err
	}
	names := flags.Args()
	if len(names) == 0 {
		var err error
		if names, err = repo.documents(ctx); err != nil {
			return err
		}
	}
	var found []error
	var runs []snippet
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(repo.Dir, name))
		if err != nil {
			return fmt.Errorf("read document: %w", err)
		}
		snippets := readSnippets(name, string(text))
		for _, s := range snippets {
			run, err := s.check(repo.Dir)
			if err != nil {
				found = append(found, fmt.Errorf("%s:%d: %w", s.doc, s.line, err))
			}
			if run {
				runs = append(runs, s)
			}
		}
		fmt.Printf("snippets: %s has %d\n", name, len(snippets))
	}
	return errors.Join(errors.Join(found...), runSnippets(ctx, repo, runs, *static))
}

// A snippet is one fenced block of a Markdown file.
type snippet struct {
	doc    string
	line   int    // of the opening fence
	lang   string // the language in the fence
	marker string // the text of the comment before it
	text   string
}

// readSnippets finds the fenced blocks of a document.
func readSnippets(doc, text string) []snippet {
	var all []snippet
	var marker, fence string
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSpace(lines[i])
		fence = line[:len(line)-len(strings.TrimLeft(line, "`"))]
		if len(fence) < 3 {
			if m, ok := strings.CutPrefix(line, "<!-- snippet:"); ok {
				marker = strings.TrimSpace(strings.TrimSuffix(m, "-->"))
			} else if line != "" {
				marker = ""
			}
			continue
		}
		s := snippet{doc: doc, line: i + 1, lang: strings.TrimSpace(line[len(fence):]), marker: marker}
		var body []string
		for i++; i < len(lines) && strings.TrimSpace(lines[i]) != fence; i++ {
			body = append(body, lines[i])
		}
		s.text = dedent(body)
		all = append(all, s)
		marker = ""
	}
	return all
}

// dedent joins lines without the white space that all of them start with.
func dedent(lines []string) string {
	margin := ""
	first := true
	for _, l := range lines {
		if strings.TrimSpace(l) == "" {
			continue
		}
		indent := l[:len(l)-len(strings.TrimLeft(l, " \t"))]
		if first {
			margin, first = indent, false
		}
		for !strings.HasPrefix(indent, margin) {
			margin = margin[:len(margin)-1]
		}
	}
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = strings.TrimRight(strings.TrimPrefix(l, margin), " \t")
	}
	return strings.Trim(strings.Join(out, "\n"), "\n")
}

var (
	errUnmarked = errors.New("block is neither a whole program nor marked with a snippet comment")
	errNotFound = errors.New("the file does not contain this block")
	errNotInCI  = errors.New(".ci/run does not run this command")
	errMarker   = errors.New("snippet comment is none of: FILE, run, run until \"TEXT\", ci, shown, WHY, tutorial STEP")
)

// check compares the snippet with its comment, and reports whether it has to be run.
func (s snippet) check(root string) (run bool, err error) {
	program := s.lang == "go" && strings.HasPrefix(s.text, "package main\n")
	verb, rest, _ := strings.Cut(s.marker, " ")
	switch {
	case verb == "tutorial":
		_, err := s.asStep()
		return false, err
	case s.marker == "" && program:
		return true, nil
	case s.marker == "" && (s.lang == "go" || s.lang == "sh"):
		return false, errUnmarked
	case s.marker == "":
		return false, nil
	case verb == "run" && (program || s.lang == "sh"):
		if _, ok := s.until(); rest != "" && !ok {
			return false, errMarker
		}
		return true, nil
	case verb == "ci" && rest == "" && s.lang == "sh":
		return false, s.inCI(root)
	case verb == "shown," && rest != "" && s.lang != "go":
		return false, nil
	case rest == "" && (strings.Contains(verb, "/") || strings.Contains(verb, ".")):
		_, err := s.lineIn(filepath.Join(root, filepath.FromSlash(verb)))
		return false, err
	}
	return false, errMarker
}

// until returns the text that a program has to print.
func (s snippet) until() (string, bool) {
	text, ok := strings.CutPrefix(s.marker, "run until ")
	unquoted := strings.TrimSuffix(strings.TrimPrefix(text, `"`), `"`)
	if !ok || len(text) != len(unquoted)+2 || unquoted == "" {
		return "", false
	}
	return unquoted, true
}

// lineIn returns the line of a file, from 1, at which the snippet's lines begin. They stand
// there one after the other, at the same or at another depth of indentation.
func (s snippet) lineIn(name string) (int, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return 0, fmt.Errorf("read the source of the snippet: %w", err)
	}
	have := strings.Split(string(data), "\n")
	n := strings.Count(s.text, "\n") + 1
	for i := 0; i+n <= len(have); i++ {
		if dedent(have[i:i+n]) == s.text {
			return i + 1, nil
		}
	}
	return 0, fmt.Errorf("%s: %w", s.marker, errNotFound)
}

// inCI reports whether each command of the snippet is one of .ci/run.
func (s snippet) inCI(root string) error {
	data, err := os.ReadFile(filepath.Join(root, ".ci", "run"))
	if err != nil {
		return fmt.Errorf("read the script of CI: %w", err)
	}
	for line := range strings.Lines(s.text) {
		command, _, _ := strings.Cut(line, " #")
		if command = strings.TrimSpace(command); command == "" || strings.HasPrefix(command, "#") {
			continue
		}
		if !slices.ContainsFunc(strings.Split(string(data), "\n"), func(l string) bool {
			return runsCommand(l, command)
		}) {
			return fmt.Errorf("%s: %w", command, errNotInCI)
		}
	}
	return nil
}

// runsCommand reports whether a line of .ci/run is a step that runs exactly
// the command: step NAME MINUTES COMMAND.
func runsCommand(line, command string) bool {
	fields := strings.Fields(line)
	return len(fields) > 3 && fields[0] == "step" && strings.Join(fields[3:], " ") == command
}
