package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

// readGo reads the comments and string literals of a Go file. Directives such as
// //go:build and the code in comments are no text. The literals of a file with a comment
// //english:exempt REASON are not read.
func readGo(src []byte) (prose, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return prose{}, fmt.Errorf("parse source: %w", err)
	}
	var text prose
	exempted := false
	for _, group := range file.Comments {
		// Comments at the ends of several lines stand one under another: each is a text of
		// its own. Comments that begin their lines make paragraphs.
		var joined []numbered
		for _, c := range group.List {
			at := fset.Position(c.Pos()).Line
			if why, ok := strings.CutPrefix(c.Text, "//english:exempt "); ok && strings.TrimSpace(why) != "" {
				exempted = true
			}
			if exampleOutput.MatchString(c.Text) {
				break
			}
			if directive.MatchString(c.Text) {
				joined = append(joined, numbered{at, ""})
				continue
			}
			for i, line := range strings.Split(uncomment(c.Text), "\n") {
				joined = append(joined, numbered{at + i, line})
			}
			if !beginsLine(src, fset.Position(c.Pos()).Offset) {
				joined = append(joined, numbered{at, ""})
			}
		}
		text.passages = append(text.passages, paragraphs(joined)...)
	}
	text.long = longComments(string(src), file, fset)
	if exempted {
		return text, nil
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BasicLit:
			// Text has several words; one word may be a key or a name.
			if value, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil && len(strings.Fields(value)) > 1 {
				text.literals = append(text.literals, passage{fset.Position(n.Pos()).Line, strings.Split(value, "\n")})
			}
		}
		return true
	})
	return text, nil
}

// A directive is a comment that tools read: no space, a word, a colon.
var directive = regexp.MustCompile(`^//[a-z]+:|^//(nolint|line|export) ?|^// \+`)

// exampleOutput begins the expected output of an example, to the end of the comment.
var exampleOutput = regexp.MustCompile(`(?i)^// (unordered )?output:`)

// beginsLine reports whether only blanks stand before the offset in its line.
func beginsLine(src []byte, offset int) bool {
	for offset--; offset >= 0 && src[offset] != '\n'; offset-- {
		if src[offset] != ' ' && src[offset] != '\t' {
			return false
		}
	}
	return true
}

func uncomment(comment string) string {
	if text, ok := strings.CutPrefix(comment, "//"); ok {
		return text
	}
	return strings.TrimSuffix(strings.TrimPrefix(comment, "/*"), "*/")
}

// A numbered is a line with its number.
type numbered struct {
	n    int
	text string
}

// paragraphs splits a comment into paragraphs, items of lists and headings. It leaves out
// code, which a tab or several spaces indent.
func paragraphs(lines []numbered) []passage {
	var found []passage
	open, list := false, false
	for _, line := range lines {
		text := strings.TrimSpace(line.text)
		item := listItem.MatchString(text) && strings.HasPrefix(line.text, "  ")
		indented := strings.HasPrefix(line.text, "\t") || strings.HasPrefix(line.text, "    ")
		switch {
		case text == "":
			open = false
			continue
		case item:
			open, list = false, true
		case indented && (!list || !open):
			open = false
			continue // code
		case !indented:
			list = false
		}
		text = strings.TrimLeft(listItem.ReplaceAllString(text, ""), "# ")
		if open {
			last := &found[len(found)-1]
			last.lines = append(last.lines, text)
		} else {
			found = append(found, passage{line.n, []string{text}})
			open = true
		}
	}
	return found
}

var listItem = regexp.MustCompile(`^([-*+]|\d+[.)])\s+`)

// longComments returns the lines of comments that are too long. Lines with links, which
// cannot be broken, may be longer, and so may code and tables in comments.
func longComments(src string, file *ast.File, fset *token.FileSet) []int {
	lines := strings.Split(src, "\n")
	var long []int
	for _, group := range file.Comments {
		for _, c := range group.List {
			if exampleOutput.MatchString(c.Text) {
				break
			}
			if directive.MatchString(c.Text) || strings.HasPrefix(c.Text, "//\t") {
				continue
			}
			from, to := fset.Position(c.Pos()).Line, fset.Position(c.End()).Line
			for n := from; n <= to; n++ {
				if widthOf(lines[n-1]) > maxColumns && !strings.Contains(lines[n-1], "://") {
					long = append(long, n)
				}
			}
		}
	}
	return long
}

// readMarkdown reads the text of a document without its code. A cell of a table is a
// passage by itself.
func readMarkdown(src string) prose {
	var text prose
	var paragraph []numbered
	end := func() {
		if len(paragraph) > 0 {
			p := passage{first: paragraph[0].n}
			for _, line := range paragraph {
				p.lines = append(p.lines, line.text)
			}
			text.passages = append(text.passages, p)
			paragraph = nil
		}
	}
	fence, comment := "", false
	for i, line := range strings.Split(src, "\n") {
		trimmed := strings.TrimSpace(line)
		mark := fenceMark.FindString(trimmed)
		switch {
		case fence != "":
			if strings.HasPrefix(mark, fence) && strings.Trim(trimmed, mark[:1]) == "" {
				fence = ""
			}
		case mark != "":
			end()
			fence = mark
		case comment || strings.HasPrefix(trimmed, "<!--"):
			end()
			comment = !strings.Contains(trimmed, "-->")
		case trimmed == "":
			end()
		case strings.HasPrefix(trimmed, "|"):
			end()
			for cell := range strings.SplitSeq(strings.Trim(trimmed, "|"), "|") {
				if strings.Trim(cell, " -:") != "" {
					text.passages = append(text.passages, passage{i + 1, []string{strings.TrimSpace(cell)}})
				}
			}
		default:
			if widthOf(line) > maxColumns && !strings.Contains(line, "](") && !strings.Contains(line, "://") {
				text.long = append(text.long, i+1)
			}
			item := strings.TrimLeft(trimmed, "> ")
			heading := strings.HasPrefix(item, "#")
			if heading || listItem.MatchString(item) {
				end()
			}
			item = strings.TrimLeft(listItem.ReplaceAllString(item, ""), "# ")
			paragraph = append(paragraph, numbered{i + 1, item})
			if heading {
				end()
			}
		}
	}
	end()
	return text
}

var fenceMark = regexp.MustCompile("^(```+|~~~+)")
