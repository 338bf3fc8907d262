package source

import (
	"go/scanner"
	"go/token"
	"slices"
	"strings"
)

// lexeme is a token with its comments.
type lexeme struct {
	token.Token
	text     string
	line     int
	doc      string   // the comment that ends on the line above
	trailing string   // the comment after it on its line
	marks    []Marker // the markers above it that are its own
	loose    []Marker // the markers in the comments above these
	behind   []Marker // the markers after it on its line
}

// lex splits source into tokens and attaches the comments to them.
func lex(name string, source []byte) ([]lexeme, error) {
	var (
		s         scanner.Scanner
		errs      scanner.ErrorList
		list      []lexeme
		group     []string
		groupEnd  int
		lastLine  int
		trailings []string
		groups    [][]Marker // of the comments since the previous token
		behind    []Marker   // after the previous token, on its line
	)
	file := token.NewFileSet().AddFile(name, -1, len(source))
	s.Init(file, source, func(pos token.Position, msg string) { errs.Add(pos, msg) }, scanner.ScanComments)
	for {
		pos, tok, text := s.Scan()
		line := file.Line(pos)
		switch {
		case tok == token.COMMENT && line == lastLine && len(group) == 0:
			trailings = append(trailings, text)
			behind = appendMark(behind, name, line, text)
		case tok == token.COMMENT:
			if line > groupEnd+1 || len(groups) == 0 {
				group, groups = nil, append(groups, nil)
			}
			group = append(group, text)
			last := &groups[len(groups)-1]
			*last = appendMark(*last, name, line, text)
			groupEnd = line + strings.Count(text, "\n")
		case tok == token.SEMICOLON && text == "\n":
			list = append(list, lexeme{Token: tok, line: line})
		default:
			closeTrailing(list, trailings, behind)
			trailings, behind = nil, nil
			l := lexeme{Token: tok, text: text, line: line}
			own := len(groups) - 1
			if len(group) > 0 && groupEnd+1 >= line {
				l.doc = commentText(group)
				own--
			}
			own = max(own, 0)
			l.loose, l.marks = slices.Concat(groups[:own]...), slices.Concat(groups[own:]...)
			group, groups = nil, nil
			list = append(list, l)
			lastLine = line
		}
		if tok == token.EOF {
			return list, errs.Err()
		}
	}
}

// appendMark appends the marker in a one-line comment, if the comment is a marker.
func appendMark(marks []Marker, file string, line int, comment string) []Marker {
	body, ok := strings.CutPrefix(comment, "//")
	if !ok {
		return marks
	}
	text, ok := strings.CutPrefix(strings.TrimSpace(body), "+")
	if !ok || text == "" || text[0] == ' ' {
		return marks
	}
	return append(marks, Marker{file, line, text})
}

// closeTrailing attaches comments to the last token before the end of the line.
func closeTrailing(list []lexeme, texts []string, behind []Marker) {
	for i := len(list) - 1; i >= 0 && len(texts) > 0; i-- {
		if list[i].Token != token.SEMICOLON || list[i].text != "" {
			list[i].trailing, list[i].behind = commentText(texts), behind
			return
		}
	}
}

// commentText returns the text of comments. It leaves out comment marks, lines for tools
// (//nolint, +kubebuilder), and everything after a line of three dashes. It joins the
// lines of a paragraph. A line that is indented, or that begins with a dash or a star,
// stays a line of its own.
func commentText(group []string) string {
	var lines []string
	for _, c := range group {
		if body, ok := strings.CutPrefix(c, "//"); ok {
			if isDirective(body) {
				continue
			}
			lines = append(lines, body)
			continue
		}
		body := strings.TrimSuffix(strings.TrimPrefix(c, "/*"), "*/")
		lines = append(lines, strings.Split(body, "\n")...)
	}
	var b strings.Builder
	separator := ""
	for _, line := range lines {
		line = strings.TrimRight(strings.TrimPrefix(line, " "), " \t\r")
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == "---":
			return b.String()
		case strings.HasPrefix(trimmed, "+"):
			continue
		case trimmed == "":
			if b.Len() > 0 {
				separator = "\n\n"
			}
			continue
		case separator == " " && (line != trimmed || strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "* ")):
			separator = "\n"
		}
		b.WriteString(separator)
		if separator == "\n" || separator == "\n\n" {
			b.WriteString(line)
		} else {
			b.WriteString(trimmed)
		}
		separator = " "
	}
	return b.String()
}

// isDirective reports whether a comment is for tools, such as //go:embed. It follows
// go/ast.
func isDirective(body string) bool {
	colon := strings.Index(body, ":")
	if colon <= 0 || colon+1 >= len(body) || body[colon+1] == ' ' {
		return strings.HasPrefix(body, "nolint")
	}
	for _, c := range body[:colon] {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}
