// Package source reads the comments and declarations of types in Go source. It reads with
// go/scanner, which adds 50 KB to a program. go/parser would add 380 KB.
package source

import (
	"fmt"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Source holds the doc comments, the markers and the declarations of types and fields in
// Go source. A name is package.Type or package.Type.Field. Fields of an unnamed struct
// have the name of the field around them, a dot and their own name. A comment at the end
// of a field's line counts if no comment stands above the field.
//
// As in controller-gen a marker belongs to what its group of comments documents. It may
// also stand in the closest group above that. The markers of a package stand above the word
// package.
type Source struct {
	docs     map[string]string
	markers  map[string][]Marker
	types    map[string]declaration
	packages map[string]*Package
	// places are the files and lines that declare a type.
	places map[string][]string
	root   root
}

// Package is a package in a directory. Packages in other directories may have its name, so
// each has a word of its own in the names of its types: v1, v1#2.
type Package struct {
	Dir, Name string
	// Markers stand above the word package.
	Markers []Marker
	// Loose are the markers of no package, type or field.
	Loose []Marker
	word  string
}

// Type returns the name of a type of the package.
func (p *Package) Type(name string) string { return p.word + "." + name }

// Marker is a line of a comment that begins with a plus sign, such as +optional.
type Marker struct {
	file string
	line int
	// Text is the marker without its plus sign.
	Text string
}

func (m Marker) String() string { return fmt.Sprintf("%s:%d: +%s", path.Base(m.file), m.line, m.Text) }

// Read reads the Go files of a file system. Nil has none.
func Read(files fs.FS) (Source, error) {
	found := empty()
	if files == nil {
		return found, nil
	}
	// Packages may be embedded as whole directories.
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		data, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		return found.read(path, data)
	})
	if err != nil {
		return Source{}, fmt.Errorf("read comments: %w", err)
	}
	return found, nil
}

func empty() Source {
	return Source{
		docs: map[string]string{}, markers: map[string][]Marker{}, types: map[string]declaration{},
		packages: map[string]*Package{}, places: map[string][]string{},
	}
}

// Doc returns the text of the comment of a type or field, or "".
func (s Source) Doc(name string) string { return s.docs[name] }

// Package returns the package of a type, or nil if the source does not have the type.
func (s Source) Package(typ string) *Package {
	if _, found := s.types[typ]; !found {
		return nil
	}
	word, _, _ := strings.Cut(typ, ".")
	return s.packages[word]
}

// word returns the word of a package in the names of its types.
func (s Source) word(dir, name string) string {
	word := name
	for n := 2; s.packages[word] != nil && s.packages[word].Dir != dir; n++ {
		word = fmt.Sprintf("%s#%d", name, n)
	}
	if s.packages[word] == nil {
		s.packages[word] = &Package{Dir: dir, Name: name, word: word}
	}
	return word
}

// Plain returns a name of a type or field as Go has it.
func Plain(name string) string {
	word, rest, _ := strings.Cut(name, ".")
	word, _, _ = strings.Cut(word, "#")
	return word + "." + rest
}

// Places returns the files and lines that declare a type.
func (s Source) Places(typ string) []string { return s.places[typ] }

// Markers returns the markers of a type or field. Markers of an alias of a named
// type have no effect, as in controller-gen: those of the named type have.
func (s Source) Markers(name string) []Marker {
	if d := s.declaredAs(name); d.alias && (s.find(d) != "" || len(d.paths) > 0) {
		return nil
	}
	return s.markers[name]
}

// commentReader reads the tokens of a file. It knows as much of the grammar as it needs
// to find types and their fields.
type commentReader struct {
	into    Source
	list    []lexeme
	pos     int
	imports []imported
	dir     string
	name    string // of the file
	pkg     string
	params  []string     // of the type around
	claimed map[int]bool // the lines of the markers that belong to something
}

func (s Source) read(name string, source []byte) error {
	list, err := lex(name, source)
	if err != nil {
		return err
	}
	r := commentReader{into: s, list: list, dir: path.Dir(name), name: name, claimed: map[int]bool{}}
	for !r.at(token.EOF) {
		switch now := r.next(); now.Token {
		case token.PACKAGE:
			r.pkg = s.word(r.dir, r.peek().text)
			r.claim(now.loose)
			r.claim(now.marks)
			p := s.packages[r.pkg]
			p.Markers = slices.Concat(p.Markers, now.loose, now.marks)
		case token.IMPORT:
			r.readImports()
		case token.TYPE:
			r.declaration(now)
		case token.LBRACE, token.LPAREN, token.LBRACK:
			r.skip()
		}
	}
	for _, l := range list {
		if p := s.packages[r.pkg]; p != nil {
			found := slices.Concat(l.behind, l.loose, l.marks)
			unclaimed := slices.DeleteFunc(found, func(m Marker) bool { return r.claimed[m.line] })
			p.Loose = slices.Concat(p.Loose, unclaimed, l.lost)
		}
	}
	return nil
}

func (r *commentReader) peek() lexeme            { return r.list[min(r.pos, len(r.list)-1)] }
func (r *commentReader) at(tok token.Token) bool { return r.peek().Token == tok }

func (r *commentReader) next() lexeme {
	l := r.peek()
	r.pos++
	return l
}

// last returns the previous token.
func (r *commentReader) last() lexeme { return r.list[min(max(r.pos-1, 0), len(r.list)-1)] }

// skip moves past the bracket that closes the one just read.
func (r *commentReader) skip() {
	for depth := 1; depth > 0 && !r.at(token.EOF); {
		switch r.next().Token {
		case token.LBRACE, token.LPAREN, token.LBRACK:
			depth++
		case token.RBRACE, token.RPAREN, token.RBRACK:
			depth--
		case token.TYPE:
			r.local()
		}
	}
}

// local notes the places of the types that a function declares, and does not move. When
// the program runs they cannot be told from the types of the package.
func (r *commentReader) local() {
	inside := *r
	inside.into, inside.claimed = empty(), map[int]bool{}
	inside.into.places = r.into.places
	inside.declaration(lexeme{})
}

// declaration reads the tokens after the word type.
func (r *commentReader) declaration(word lexeme) {
	if !r.at(token.LPAREN) {
		r.typeSpec(word)
		return
	}
	r.next()
	for !r.at(token.RPAREN) && !r.at(token.EOF) {
		if r.at(token.SEMICOLON) {
			r.next()
			continue
		}
		r.typeSpec(r.peek())
	}
}

// typeSpec reads a type. The lexeme first has the comments of the type.
func (r *commentReader) typeSpec(first lexeme) {
	name := r.next()
	if name.Token != token.IDENT {
		return
	}
	key := r.pkg + "." + name.text
	r.set(key, first.doc)
	r.mark(key, first.marks)
	r.parameters()
	alias := r.at(token.ASSIGN)
	if alias {
		r.next()
	}
	declared := r.named()
	declared.alias = alias
	r.into.types[key] = declared
	r.into.places[key] = append(r.into.places[key], fmt.Sprintf("%s:%d", r.name, name.line))
	r.typeExpr(key)
}

// typeExpr reads a type to its end, with the fields of the structs in it.
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

// fields reads the fields of a struct and its closing brace.
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
		declared, start := r.named(), r.pos
		for _, name := range names { // the fields of a struct are those of each name
			r.pos = start
			r.typeExpr(key + "." + name)
		}
		if doc == "" {
			doc = r.last().trailing
		}
		for _, name := range names {
			if name == "_" {
				continue // no value has it
			}
			r.into.types[key+"."+name] = declared
			r.set(key+"."+name, doc)
			r.mark(key+"."+name, first.marks)
			r.mark(key+"."+name, r.last().behind)
		}
	}
}

// fieldNames reads the names of a field. An embedded field has the name of its type.
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

func (r *commentReader) claim(marks []Marker) {
	for _, m := range marks {
		r.claimed[m.line] = true
	}
}

func (r *commentReader) mark(key string, marks []Marker) {
	r.claim(marks)
	if len(marks) > 0 {
		r.into.markers[key] = append(r.into.markers[key], marks...)
	}
}
