package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/format"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// tutorialDoc is the document whose blocks are steps. They are done one after the other,
// as a reader does them, outside the repository and with the packed modules.
const tutorialDoc = "docs/tutorial.md"

// A step is one block of the tutorial. The comment before the block says of which kind it is:
//
//	<!-- snippet: tutorial run -->                    commands; they have to end with status 0
//	<!-- snippet: tutorial fails -->                  commands of which the last has to fail
//	<!-- snippet: tutorial run after stop -->         run, after Ctrl-C in the second terminal
//	<!-- snippet: tutorial terminal until "TEXT" -->  commands in a second terminal, which go on
//	                                                  after they have printed TEXT
//	<!-- snippet: tutorial output -->                 lines that the commands before have printed,
//	                                                  in this order; … stands for any text
//	<!-- snippet: tutorial file NAME -->              the content of a file
//	<!-- snippet: tutorial edit NAME -->              a diff of a file
//	<!-- snippet: tutorial edit NAME until "TEXT" --> the same; then the second terminal prints TEXT
//
// All commands of the first terminal run in one shell, so that its directory, variables
// and functions last. A diff has no line numbers: its unchanged and removed lines stand in
// the file exactly once. A Go file is formatted after each step.
type step struct {
	snippet
	verb  string
	file  string
	until string
	stop  bool // stop the second terminal first
}

var stepFormat = regexp.MustCompile(
	`^tutorial (run|fails|output|terminal|file [^ "]+|edit [^ "]+)( after stop)?( until "([^"]+)")?$`)

var errStep = errors.New("snippet comment is no step of the tutorial: see tools/tutorial.go")

// asStep returns the step that a snippet is.
func (s snippet) asStep() (step, error) {
	m := stepFormat.FindStringSubmatch(s.marker)
	if m == nil || s.doc != tutorialDoc {
		return step{}, errStep
	}
	verb, rest, _ := strings.Cut(m[1], " ")
	t := step{snippet: s, verb: verb, file: rest, stop: m[2] != "", until: m[4]}
	shell := verb == "run" || verb == "fails" || verb == "terminal"
	waits := verb == "terminal" || verb == "edit" && t.until != ""
	switch {
	case shell != (s.lang == "sh"),
		waits != (t.until != ""),
		t.stop && (verb != "run" && verb != "fails"),
		verb == "edit" && s.lang != "diff",
		verb == "output" && s.lang != "text",
		t.file != "" && !filepath.IsLocal(t.file):
		return step{}, errStep
	}
	return t, nil
}

// readTutorial returns the steps of the tutorial.
func readTutorial(text string) (steps []step, err error) {
	for _, s := range readSnippets(tutorialDoc, text) {
		if !strings.HasPrefix(s.marker, "tutorial") {
			continue
		}
		t, err := s.asStep()
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", s.doc, s.line, err)
		}
		steps = append(steps, t)
	}
	if len(steps) == 0 {
		return nil, fmt.Errorf("%s has no steps", tutorialDoc)
	}
	return steps, nil
}

// A reader follows the tutorial.
type reader struct {
	dir    string
	env    []string
	first  *terminal // where commands run one after the other
	second *terminal // where the operator runs, if it does
	said   string    // by the last commands
}

// commandLimit is the longest time that the commands of one step may take. The first start
// of a cluster may have to build Kubernetes.
const commandLimit = 20 * time.Minute

// tutorial follows the tutorial in an empty directory.
func (s *stranger) tutorial(ctx context.Context) (failed error) {
	text, err := os.ReadFile(filepath.Join(s.repo.Dir, filepath.FromSlash(tutorialDoc)))
	if err != nil {
		return fmt.Errorf("read the tutorial: %w", err)
	}
	steps, err := readTutorial(string(text))
	if err != nil {
		return err
	}
	r := &reader{dir: filepath.Join(s.dir, "tutorial"), env: s.runner.env}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return fmt.Errorf("make a directory for the tutorial: %w", err)
	}
	if r.first, err = openTerminal(r.dir, r.env); err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, r.first.close(), r.stop(), s.endCluster(ctx, r)) }()
	for _, t := range steps {
		begun := time.Now()
		fmt.Printf("tutorial: %s:%d %s\n", t.doc, t.line, t.marker)
		if err := r.do(ctx, t); err != nil {
			return fmt.Errorf("%s:%d: %w", t.doc, t.line, err)
		}
		fmt.Printf("  done in %.1f s\n", time.Since(begun).Seconds())
	}
	return nil
}

// endCluster ends the cluster that a failed step has left running.
func (s *stranger) endCluster(ctx context.Context, r *reader) error {
	state := r.path(".cluster")
	if _, err := os.Stat(state); err != nil {
		return nil //nolint:nilerr // no step has started a cluster
	}
	l := launcher{runner: s.runner, program: []string{"go", "run", prefix + "/cluster@" + packed}, state: state}
	return l.down(ctx)
}

// do does one step.
func (r *reader) do(ctx context.Context, t step) (err error) {
	switch t.verb {
	case "run", "fails":
		if t.stop {
			if err := r.stop(); err != nil {
				return err
			}
		}
		r.said, err = r.first.run(ctx, t.text, t.verb == "fails")
		return err
	case "terminal":
		if r.second != nil {
			return errors.New("the second terminal is in use")
		}
		if r.second, err = openTerminal(r.dir, r.env); err != nil {
			return err
		}
		return r.second.start(ctx, t.text, t.until)
	case "output":
		return printed(r.said, t.text)
	case "file":
		return r.write(ctx, t, []byte(t.text+"\n"))
	default:
		old, err := os.ReadFile(r.path(t.file))
		if err != nil {
			return fmt.Errorf("read the file to edit: %w", err)
		}
		edited, err := patched(string(old), t.text)
		if err != nil {
			return fmt.Errorf("edit %s: %w", t.file, err)
		}
		return r.write(ctx, t, []byte(edited))
	}
}

// path returns the path of a file of the tutorial. The files are in the one project.
func (r *reader) path(file string) string {
	projects, err := filepath.Glob(filepath.Join(r.dir, "*", "go.mod"))
	if err != nil || len(projects) != 1 {
		return filepath.Join(r.dir, filepath.FromSlash(file))
	}
	return filepath.Join(filepath.Dir(projects[0]), filepath.FromSlash(file))
}

// write writes a file, and waits until the second terminal shows the effect.
func (r *reader) write(ctx context.Context, t step, data []byte) error {
	if path.Ext(t.file) == ".go" {
		formatted, err := format.Source(data)
		if err != nil {
			return fmt.Errorf("parse %s: %w", t.file, err)
		}
		if !bytes.Equal(formatted, data) {
			return fmt.Errorf("%s is not formatted:\n%s", t.file, data)
		}
	}
	if t.until != "" && r.second == nil {
		return errors.New("there is no second terminal to watch")
	}
	var seen *tail
	if t.until != "" {
		seen = r.second.expect(t.until)
	}
	if err := os.WriteFile(r.path(t.file), data, 0o644); err != nil {
		return fmt.Errorf("write %s: %w", t.file, err)
	}
	if seen == nil {
		return nil
	}
	return r.second.await(ctx, seen)
}

// stop presses Ctrl-C in the second terminal.
func (r *reader) stop() error {
	if r.second == nil {
		return nil
	}
	t := r.second
	r.second = nil
	return t.interrupt()
}

// patched returns a text after a diff without line numbers. A line of the diff that begins
// with @@ or is … separates two places.
func patched(text, diff string) (string, error) {
	var old, changed strings.Builder
	apply := func() error {
		if old.Len() == 0 && changed.Len() == 0 {
			return nil
		}
		if n := strings.Count("\n"+text, "\n"+old.String()); n != 1 || old.Len() == 0 {
			return fmt.Errorf("these lines stand in it %d times:\n%s", n, old.String())
		}
		text = strings.Replace("\n"+text, "\n"+old.String(), "\n"+changed.String(), 1)[1:]
		old.Reset()
		changed.Reset()
		return nil
	}
	for line := range strings.SplitSeq(diff, "\n") {
		if strings.HasPrefix(line, "@@") || line == "…" {
			if err := apply(); err != nil {
				return "", err
			}
			continue
		}
		sign, rest := " ", ""
		if line != "" {
			sign, rest = line[:1], line[1:]
		}
		switch sign {
		case " ":
			old.WriteString(rest + "\n")
			changed.WriteString(rest + "\n")
		case "-":
			old.WriteString(rest + "\n")
		case "+":
			changed.WriteString(rest + "\n")
		default:
			return "", fmt.Errorf("no line of a diff: %q", line)
		}
	}
	return text, apply()
}

// printed compares an output with the lines that the tutorial shows of it. The amount of
// white space does not count.
func printed(output, shown string) error {
	lines := strings.Split(output, "\n")
	for want := range strings.SplitSeq(shown, "\n") {
		fields := strings.Fields(want)
		if len(fields) == 0 || len(fields) == 1 && fields[0] == "…" {
			continue
		}
		parts := strings.Split(strings.Join(fields, " "), "…")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		pattern := regexp.MustCompile("^" + strings.Join(parts, ".*") + "$")
		for {
			if len(lines) == 0 {
				return fmt.Errorf("the output has no line %q at this place:\n%s", want, output)
			}
			line := strings.Join(strings.Fields(lines[0]), " ")
			lines = lines[1:]
			if pattern.MatchString(line) {
				break
			}
		}
	}
	return nil
}
