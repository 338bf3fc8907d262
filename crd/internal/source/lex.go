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
	lost     []Marker // those in block comments, where no generator finds them
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
		lost      []Marker   // in block comments since the previous token
	)
	file := token.NewFileSet().AddFile(name, -1, len(source))
	s.Init(file, source, func(pos token.Position, msg string) { errs.Add(pos, msg) }, scanner.ScanComments)
	for {
		pos, tok, text := s.Scan()
		line := file.PositionFor(pos, false).Line // line directives would give two lines one number
		end := line + strings.Count(text, "\n")
		if tok == token.COMMENT && strings.HasPrefix(text, "/*") {
			for i, l := range strings.Split(text, "\n") {
				lost = appendMark(lost, name, line+i, "//"+strings.TrimLeft(strings.TrimSuffix(l, "*/"), "/* \t"))
			}
		}
		switch {
		case tok == token.COMMENT && line == lastLine && len(group) == 0:
			trailings = append(trailings, text)
			behind = appendMark(behind, name, line, text)
			lastLine = end
		case tok == token.COMMENT:
			if line > groupEnd+1 || len(groups) == 0 {
				group, groups = nil, append(groups, nil)
			}
			group = append(group, text)
			last := &groups[len(groups)-1]
			*last = appendMark(*last, name, line, text)
			groupEnd = end
		case tok == token.SEMICOLON && text == "\n":
			list = append(list, lexeme{Token: tok, line: line})
		default:
			closeTrailing(list, trailings, behind)
			trailings, behind = nil, nil
			l := lexeme{Token: tok, text: text, line: line, lost: lost}
			own := len(groups) - 1
			if len(group) > 0 && groupEnd+1 >= line {
				l.doc = commentText(group)
				own--
			}
			own = max(own, 0)
			l.loose, l.marks = slices.Concat(groups[:own]...), slices.Concat(groups[own:]...)
			group, groups, lost = nil, nil, nil
			list = append(list, l)
			lastLine = end
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
	if !ok || text == "" {
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
