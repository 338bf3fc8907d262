package crd

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"strings"
)

// comments are the doc comments of types and fields, read from Go source. Keys
// are package.Type and package.Type.Field; the fields of a struct without a
// name go on behind the field that has it. A comment at the end of a field's
// line counts if there is none above.
//
// It is read with go/scanner, which adds 50 KB to a program; go/parser would
// add 380 KB.
type comments map[string]string

// sources are what Go source says of types and fields besides their tags: doc
// comments and markers, under the same keys. The markers of a package stand
// under its name.
type sources struct {
	docs  comments
	marks map[string][]mark
}

// readSources reads the Go files of a file system.
func readSources(source fs.FS) (sources, error) {
	found := sources{comments{}, map[string][]mark{}}
	if source == nil {
		return found, nil
	}
	// Packages may be embedded whole, in folders.
	err := fs.WalkDir(source, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		data, err := fs.ReadFile(source, path)
		if err != nil {
			return err
		}
		return found.read(path, data)
	})
	if err != nil {
		return sources{}, fmt.Errorf("read comments: %w", err)
	}
	return found, nil
}

// lexeme is a token with the comments that belong to it.
type lexeme struct {
	token.Token
	text     string
	line     int
	doc      string // the comment that ends on the line above
	trailing string // the comment behind it on its line
	marks    []mark // the markers between the token before and this one
	behind   []mark // the markers behind it on its line
}

// commentReader walks over the tokens of a file. Of the grammar it knows what
// it takes to find types and their fields.
type commentReader struct {
	into sources
	list []lexeme
	pos  int
}

func (c comments) read(name string, source []byte) error {
	return sources{c, map[string][]mark{}}.read(name, source)
}

func (c sources) read(name string, source []byte) error {
	list, err := lex(name, source)
	if err != nil {
		return err
	}
	r := commentReader{into: c, list: list}
	pkg := ""
	for !r.at(token.EOF) {
		switch now := r.next(); now.Token {
		case token.PACKAGE:
			pkg = r.peek().text
			r.mark(pkg, now.marks)
		case token.TYPE:
			r.declaration(pkg, now)
		case token.LBRACE, token.LPAREN, token.LBRACK:
			r.skip()
		}
	}
	return nil
}

// lex splits source into tokens and gives each its comments.
func lex(name string, source []byte) ([]lexeme, error) {
	var (
		s         scanner.Scanner
		errs      scanner.ErrorList
		list      []lexeme
		group     []string
		groupEnd  int
		lastLine  int
		trailings []string
		marks     []mark // since the last token
		behind    []mark // behind the last token, on its line
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
			if line > groupEnd+1 {
				group = nil
			}
			group = append(group, text)
			marks = appendMark(marks, name, line, text)
			groupEnd = line + strings.Count(text, "\n")
		case tok == token.SEMICOLON && text == "\n":
			list = append(list, lexeme{Token: tok, line: line})
		default:
			closeTrailing(list, trailings, behind)
			trailings, behind = nil, nil
			l := lexeme{Token: tok, text: text, line: line, marks: marks}
			marks = nil
			if len(group) > 0 && groupEnd+1 >= line {
				l.doc = commentText(group)
			}
			group = nil
			list = append(list, l)
			lastLine = line
		}
		if tok == token.EOF {
			return list, errs.Err()
		}
	}
}

// closeTrailing gives the last token, not counting the end of its line, the
// comments that stand behind it.
func closeTrailing(list []lexeme, texts []string, behind []mark) {
	for i := len(list) - 1; i >= 0 && len(texts) > 0; i-- {
		if list[i].Token != token.SEMICOLON || list[i].text != "" {
			list[i].trailing, list[i].behind = commentText(texts), behind
			return
		}
	}
}

func (r *commentReader) peek() lexeme            { return r.list[min(r.pos, len(r.list)-1)] }
func (r *commentReader) at(tok token.Token) bool { return r.peek().Token == tok }

func (r *commentReader) next() lexeme {
	l := r.peek()
	r.pos++
	return l
}

// last returns the token before.
func (r *commentReader) last() lexeme { return r.list[min(max(r.pos-1, 0), len(r.list)-1)] }

// skip goes behind the bracket that closes the one that was just read.
func (r *commentReader) skip() {
	for depth := 1; depth > 0 && !r.at(token.EOF); {
		switch r.next().Token {
		case token.LBRACE, token.LPAREN, token.LBRACK:
			depth++
		case token.RBRACE, token.RPAREN, token.RBRACK:
			depth--
		}
	}
}

// declaration reads what follows the word type.
func (r *commentReader) declaration(pkg string, word lexeme) {
	if !r.at(token.LPAREN) {
		r.typeSpec(pkg, word)
		return
	}
	r.next()
	for !r.at(token.RPAREN) && !r.at(token.EOF) {
		if r.at(token.SEMICOLON) {
			r.next()
			continue
		}
		r.typeSpec(pkg, r.peek())
	}
}

// typeSpec reads a type whose comments are those of the lexeme first.
func (r *commentReader) typeSpec(pkg string, first lexeme) {
	name := r.next()
	if name.Token != token.IDENT {
		return
	}
	key := pkg + "." + name.text
	r.set(key, first.doc)
	r.mark(key, first.marks)
	r.typeExpr(key)
}

// typeExpr reads to the end of a type, and the fields of the structs in it.
func (r *commentReader) typeExpr(key string) {
	for {
		switch r.peek().Token {
		case token.SEMICOLON, token.RBRACE, token.RPAREN, token.EOF:
			return
		case token.STRUCT:
			r.next()
			if r.at(token.LBRACE) {
				r.next()
				r.fields(key)
			}
		case token.LBRACE, token.LPAREN, token.LBRACK:
			r.next()
			r.skip()
		default:
			r.next()
		}
	}
}

// fields reads the fields of a struct, up to and with its closing brace.
func (r *commentReader) fields(key string) {
	for !r.at(token.EOF) {
		switch r.peek().Token {
		case token.RBRACE:
			r.next()
			return
		case token.SEMICOLON:
			r.next()
			continue
		}
		first := r.peek()
		doc := first.doc
		names := r.fieldNames()
		if len(names) == 0 {
			r.next()
			continue
		}
		r.typeExpr(key + "." + names[len(names)-1])
		if doc == "" {
			doc = r.last().trailing
		}
		for _, name := range names {
			r.set(key+"."+name, doc)
			r.mark(key+"."+name, first.marks)
			r.mark(key+"."+name, r.last().behind)
		}
	}
}

// fieldNames reads the names of a field, or the name that it has from the type
// that it embeds.
func (r *commentReader) fieldNames() []string {
	var names []string
	for {
		switch r.peek().Token {
		case token.MUL: // an embedded pointer
			r.next()
		case token.IDENT:
			names = append(names, r.next().text)
		default:
			return names
		}
		switch r.peek().Token {
		case token.COMMA:
			r.next()
		case token.PERIOD: // the type of another package
			r.next()
			names = nil
		default:
			if len(names) > 0 {
				return names
			}
		}
	}
}

func (r *commentReader) set(key, doc string) {
	if doc != "" {
		r.into.docs[key] = doc
	}
}

func (r *commentReader) mark(key string, marks []mark) {
	if len(marks) > 0 {
		r.into.marks[key] = append(r.into.marks[key], marks...)
	}
}

// commentText returns what comments say: without their marks, without lines for
// tools (//nolint, +kubebuilder), and nothing behind a line of three dashes.
// The lines of a paragraph are joined, those that are indented or begin with a
// dash or a star stay by themselves.
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

// isDirective reports a comment for tools, such as //go:embed, as go/ast does.
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
