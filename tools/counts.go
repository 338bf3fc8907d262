package main

import (
	"context"
	"errors"
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// checkCounts compares the numbers in the documents with the sources. A comment before a
// number tells how it is counted:
//
//	<!-- count lines FILE -->   lines of code of a Go file below its imports
//	<!-- count modules -->      go.mod files
//	<!-- count image -->        the limit of an image, in MB
//	<!-- count neon -->         the limit of Neon's image, in MB
//	<!-- count go -->           the release of Go
//	<!-- count kubernetes -->   the release of Kubernetes that the tests run on
//	<!-- count low -->          the lowest release of the k8s.io modules
//	<!-- count high -->         the highest release of the k8s.io modules
//
// Every number in the text of README.md needs such a comment. Numbers in code, in links and
// between the comments "bench-quick" and "/bench-quick" need none, because they are measured.
func checkCounts(ctx context.Context, repo *Repo, _ []string) error {
	names, err := repo.documents(ctx)
	if err != nil {
		return err
	}
	var found []error
	numbers := 0
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(repo.Dir, name))
		if err != nil {
			return fmt.Errorf("read document: %w", err)
		}
		counted, unmarked := readCounts(string(data))
		numbers += len(counted)
		if name == "README.md" {
			for _, number := range unmarked {
				found = append(found, fmt.Errorf("%s: %s: %w", name, number, errUncounted))
			}
		}
		for _, c := range counted {
			want, err := repo.count(ctx, c.what)
			if err == nil && c.number != want {
				err = fmt.Errorf("the document has %s, the sources have %s", c.number, want)
			}
			if err != nil {
				found = append(found, fmt.Errorf("%s: count %s: %w", name, c.what, err))
			}
		}
	}
	fmt.Printf("counts: %d numbers in %d documents\n", numbers, len(names))
	return errors.Join(found...)
}

var errUncounted = errors.New("number has no count comment")

// counted is a number with its comment.
type counted struct{ what, number string }

var (
	countComment = regexp.MustCompile(`<!-- count ([^>]+) -->(\d+(?:\.\d+)*)`)
	// notCounted matches the parts of a document whose numbers need no comment.
	notCounted = regexp.MustCompile(
		"(?s)<!-- bench-quick -->.*<!-- /bench-quick -->|```.*?```|`[^`\n]*`|\\]\\([^)]*\\)|<!--.*?-->",
	)
	number     = regexp.MustCompile(`\d+(\.\d+)*`)
	listNumber = regexp.MustCompile(`(?m)^\d+\. `)
)

// readCounts finds the numbers of a document: those with a comment, and the others.
func readCounts(text string) (all []counted, unmarked []string) {
	for _, m := range countComment.FindAllStringSubmatch(text, -1) {
		all = append(all, counted{m[1], m[2]})
	}
	text = countComment.ReplaceAllString(text, "")
	text = notCounted.ReplaceAllString(text, "")
	return all, number.FindAllString(listNumber.ReplaceAllString(text, ""), -1)
}

// count returns the number that the sources have.
func (r *Repo) count(ctx context.Context, what string) (string, error) {
	kind, file, _ := strings.Cut(what, " ")
	switch kind {
	case "lines":
		data, err := os.ReadFile(filepath.Join(r.Dir, filepath.FromSlash(file)))
		if err != nil {
			return "", fmt.Errorf("read source: %w", err)
		}
		return strconv.Itoa(codeLines(string(data))), nil
	case "modules":
		out, err := r.output(ctx, r.Dir, "git", "ls-files", "--cached", "go.mod", "**/go.mod")
		return strconv.Itoa(len(strings.Fields(out))), err
	case "image":
		return r.find("operators/internal/ship/ship.go", `maxImage\s+= ([\d.]+)\*mega`)
	case "neon":
		return r.find("operators/neon/image/main.go", `Max:\s+(\d+)_000_000`)
	case "go":
		return r.find("go.mod", `(?m)^go (\d+\.\d+)`)
	case "kubernetes":
		return r.find("cluster/go.mod", `k8s\.io/kubernetes v(\S+)`)
	case "low":
		return r.find("go.mod", `k8s\.io/api v(\d+\.\d+)`)
	case "high":
		return r.find("tools/stranger.go", `newerKubernetes = "v(\d+\.\d+)`)
	}
	return "", errors.New("nothing is counted like this")
}

// find returns the text that the pattern's group matches in a file.
func (r *Repo) find(file, pattern string) (string, error) {
	data, err := os.ReadFile(filepath.Join(r.Dir, filepath.FromSlash(file)))
	if err != nil {
		return "", fmt.Errorf("read source: %w", err)
	}
	m := regexp.MustCompile(pattern).FindSubmatch(data)
	if m == nil {
		return "", fmt.Errorf("%s has no %s", file, pattern)
	}
	return string(m[1]), nil
}

// codeLines returns the number of lines below the imports of a Go file that hold more than
// space and comments, by the rule of package bench.
func codeLines(source string) int {
	_, below, _ := strings.Cut(source, "\n)\n")
	fset := token.NewFileSet()
	file := fset.AddFile("", -1, len(below))
	var s scanner.Scanner
	s.Init(file, []byte(below), nil, 0) // it leaves out comments
	lines := make(map[int]bool)
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			return len(lines)
		}
		if tok == token.SEMICOLON && text == "\n" {
			continue // the scanner inserts it, possibly at the end of a comment
		}
		first := file.Line(pos)
		for n := range strings.Count(text, "\n") + 1 {
			lines[first+n] = true
		}
	}
}
