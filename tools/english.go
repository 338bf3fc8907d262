package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// maxColumns is the longest line of prose and of comments. A tab counts as tabColumns.
	maxColumns = 120
	tabColumns = 4

	// maxHeadless is the allowed share of lines with a headless clause, in percent. One
	// such line is allowed everywhere, so that a short package does not fail by it.
	maxHeadless = 2
)

// checkEnglish reads the comments of all Go files and the text of all Markdown files. It
// finds three faults:
//
//   - A headless clause: a bare "what", "who" or "that which" that is the subject or the
//     object of a sentence, as in "drops what nobody uses" instead of "drops the unused
//     fields". Readers whose first language is not English stumble over such clauses. A
//     package or a document may have a few of them.
//   - A word or phrase that this project does not use; oldWords names the word to use
//     instead.
//   - A line of text or of a comment that is longer than maxColumns.
//
// String literals in Go files are read for the first two, because most of them are texts of
// errors and logs.
func checkEnglish(_ context.Context, repo *Repo, args []string) error {
	flags := flag.NewFlagSet("english", flag.ContinueOnError)
	verbose := flags.Bool("v", false, "print the share of headless clauses of each package and document")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var names []string
	err := filepath.WalkDir(repo.Dir, func(path string, d fs.DirEntry, err error) error {
		switch ext := filepath.Ext(path); {
		case err != nil:
			return err
		case d.IsDir():
			if hidden := path != repo.Dir && strings.HasPrefix(d.Name(), "."); hidden || d.Name() == "node_modules" {
				return filepath.SkipDir
			}
		case ext == ".go" || ext == ".md":
			names = append(names, path)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("list files: %w", err)
	}
	units := map[string]*unit{}
	for _, name := range names {
		rel, err := filepath.Rel(repo.Dir, name)
		if err != nil {
			return fmt.Errorf("list files: %w", err)
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("read text: %w", err)
		}
		key := rel // a document by itself, a Go file with its package
		var text prose
		if filepath.Ext(name) == ".md" {
			text = readMarkdown(string(src))
		} else {
			key = filepath.Dir(rel)
			if text, err = readGo(src); err != nil {
				return fmt.Errorf("read text of %s: %w", rel, err)
			}
		}
		if units[key] == nil {
			units[key] = &unit{name: key}
		}
		units[key].read(rel, text)
	}
	return report(units, *verbose)
}

// report prints the shares and returns the findings.
func report(units map[string]*unit, verbose bool) error {
	var found []error
	lines, hits := 0, 0
	for _, u := range sorted(units) {
		lines += u.lines
		hits += len(u.headless)
		if verbose {
			fmt.Printf("english: %-34s %5.2f%%  %d of %d lines\n", u.name, u.share(), len(u.headless), u.lines)
		}
		found = append(found, u.problems()...)
	}
	if len(found) > 0 {
		return errors.Join(found...)
	}
	fmt.Printf("english: %d packages and documents; %d of %d lines have a headless clause\n", len(units), hits, lines)
	return nil
}

func sorted(units map[string]*unit) []*unit {
	var all []*unit
	for _, u := range units {
		all = append(all, u)
	}
	slices.SortFunc(all, func(a, b *unit) int { return strings.Compare(a.name, b.name) })
	return all
}

// A unit is a package or a document, with the findings in it.
type unit struct {
	name     string
	lines    int      // lines of text
	headless []string // "file:line: text" of each line with a headless clause
	faults   []error
}

// A prose is the text of one file.
type prose struct {
	passages []passage // comments and paragraphs
	literals []passage // string literals
	long     []int     // lines that are too long
}

// A passage is text that a reader reads in one go, such as a paragraph, in its lines.
type passage struct {
	first int // the number of the first line
	lines []string
}

// read adds the findings in one file.
func (u *unit) read(file string, text prose) {
	for _, p := range slices.Concat(text.passages, text.literals) {
		u.lines += len(p.lines)
		joined, lineOf := p.join()
		seen := 0
		for _, at := range headless(joined) {
			if line := lineOf(at); line != seen {
				seen = line
				u.headless = append(u.headless, fmt.Sprintf("%s:%d: headless clause: %s", file, line, around(joined, at)))
			}
		}
	}
	for _, p := range slices.Concat(text.passages, text.literals) {
		joined, lineOf := p.join()
		for _, w := range oldWords() {
			for _, at := range w.pattern.FindAllStringIndex(joined, -1) {
				u.faults = append(u.faults, fmt.Errorf("%s:%d: %q: use %s", file, lineOf(at[0]), joined[at[0]:at[1]], w.instead))
			}
		}
	}
	for _, line := range text.long {
		u.faults = append(u.faults, fmt.Errorf("%s:%d: the line has more than %d columns", file, line, maxColumns))
	}
}

func (u *unit) share() float64 {
	return 100 * float64(len(u.headless)) / float64(max(1, u.lines))
}

// problems returns the headless clauses if there are too many of them, and all other
// findings.
func (u *unit) problems() []error {
	var found []error
	if len(u.headless) > 1 && u.share() > maxHeadless {
		for _, text := range u.headless {
			found = append(found, errors.New(text))
		}
		found = append(found, fmt.Errorf("%s: %.2f%% of the lines have a headless clause, more than %d%%: "+
			"write a noun, as in \"the fields that\" instead of \"what\"", u.name, u.share(), maxHeadless))
	}
	return append(found, u.faults...)
}

// join returns the lines as one text and a function from an offset in it to a line number.
func (p passage) join() (string, func(offset int) int) {
	return strings.Join(p.lines, " "), func(offset int) int {
		for i, line := range p.lines {
			if offset -= len(line) + 1; offset < 0 {
				return p.first + i
			}
		}
		return p.first + len(p.lines) - 1
	}
}

// around returns the words near an offset.
func around(text string, at int) string {
	from, to := max(0, at-30), min(len(text), at+40)
	if from > 0 {
		from += strings.IndexByte(text[from:], ' ') + 1
	}
	if to < len(text) {
		to = max(at, from+strings.LastIndexByte(text[from:to], ' '))
	}
	return strings.TrimSpace(text[from:to])
}

// widthOf returns the width of a line.
func widthOf(line string) int {
	tabs := strings.Count(line, "\t")
	return utf8.RuneCountInString(line) + tabs*(tabColumns-1)
}
