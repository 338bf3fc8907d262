package source

import (
	"go/token"
	"iter"
	"path"
	"regexp"
	"slices"
	"strconv"
)

// At run time a program cannot see that type X is declared as type X Y, nor that a field's
// type is an alias. X has the markers of Y, and Y has the comments of the fields, so the
// package reads this from the source.

// declaration is the part of a type expression that names a type.
type declaration struct {
	// name is the type's name without its package. It is empty if the expression names no
	// type, as in a struct.
	name string
	// packages are the possible names of its package, the likeliest first. Only the
	// package's own source has its name for sure.
	packages []string
	// path is the import path of its package. It is empty for the package around it.
	path string
	// steps lead from a value of the expression to the value of the named type: items in
	// []Y, values in map[string]Y.
	steps   []string
	pointer bool
	alias   bool // declared with an equals sign
	// dir is the directory of the file. Types in it are of the package around it.
	dir string
}

// imported is an import of a file. Its name is empty if the package has its own name.
type imported struct{ name, path string }

// Names returns the names of a type in the source: its own name, then those of the types
// that it is declared as. The last one has the comments of the fields.
func (s Source) Names(name string) []string {
	names := []string{name}
	for {
		next := s.find(s.declaredAs(names[len(names)-1]))
		if next == "" || slices.Contains(names, next) {
			return names
		}
		names = append(names, next)
	}
}

// declaredAs returns Y for the name of X if X is declared as type X Y.
func (s Source) declaredAs(name string) declaration {
	if d := s.types[name]; len(d.steps) == 0 && !d.pointer {
		return d
	}
	return declaration{}
}

// find returns the name of a declaration's type in the source. It returns "" if the
// source does not have the type.
func (s Source) find(d declaration) string {
	for _, pkg := range d.packages {
		name := pkg + "." + d.name
		if d.path == "" {
			if _, found := s.types[name]; found {
				return name
			}
			continue
		}
		for _, name := range s.Find(d.path, name, false) {
			// Versions of an API often have packages of one name.
			if s.types[name].dir != d.dir {
				return name
			}
		}
	}
	return ""
}

// Foreign yields the paths of the packages and the names of the types of other packages
// that the source declares a type as.
func (s Source) Foreign(name string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, n := range s.Names(name) {
			if d := s.declaredAs(n); d.path != "" && !yield(d.path, d.name) {
				return
			}
		}
	}
}

// Alias returns the name of the alias that a field or type is declared with, or "". The
// steps lead from a value of the field or type to the value of the alias.
func (s Source) Alias(name string) (alias string, steps []string) {
	d := s.types[name]
	if alias = s.find(d); !s.types[alias].alias {
		return "", nil
	}
	return alias, d.steps
}

// Steps to the elements of a list and to those of a map.
const (
	Items  = "items"
	Values = "values"
)

// named reads the type expression that follows, up to the first type that it names. It
// does not move.
func (r *commentReader) named(pkg string) (d declaration) {
	defer func(pos int) { r.pos, d.dir = pos, r.dir }(r.pos)
	for {
		switch l := r.next(); l.Token {
		case token.MUL:
			d.pointer = true
		case token.LBRACK:
			r.skip()
			d.steps = append(d.steps, Items)
		case token.MAP:
			r.next()
			r.skip()
			d.steps = append(d.steps, Values)
		case token.IDENT:
			d.name, d.packages = l.text, []string{pkg}
			if r.at(token.PERIOD) {
				r.next()
				d.name = r.next().text
				d.packages, d.path = r.packagesOf(l.text)
			}
			return d
		default:
			return declaration{}
		}
	}
}

// skipParameters skips the parameters of a generic type.
func (r *commentReader) skipParameters() {
	if !r.at(token.LBRACK) {
		return
	}
	first, second := r.list[min(r.pos+1, len(r.list)-1)].Token, r.list[min(r.pos+2, len(r.list)-1)].Token
	if first == token.IDENT && slices.Contains(afterParameter, second) {
		r.next()
		r.skip()
	}
}

// afterParameter are the tokens that follow a type parameter, but not the length of an
// array.
var afterParameter = []token.Token{token.IDENT, token.COMMA, token.LBRACK, token.INTERFACE, token.TILDE, token.MAP,
	token.FUNC, token.CHAN, token.STRUCT}

// readImports reads the tokens after the word import.
func (r *commentReader) readImports() {
	group := r.at(token.LPAREN)
	for name := ""; !r.at(token.EOF); {
		switch l := r.next(); l.Token {
		case token.IDENT:
			name = l.text
		case token.STRING:
			if path, err := strconv.Unquote(l.text); err == nil {
				r.imports = append(r.imports, imported{name, path})
			}
			name = ""
		case token.RPAREN:
			return
		case token.SEMICOLON:
			if !group {
				return
			}
		}
	}
}

var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

// packagesOf returns the possible names of the package that a file imports under a name,
// and the package's path.
func (r *commentReader) packagesOf(name string) (packages []string, from string) {
	ends := func(p string) []string {
		base := path.Base(p)
		if !majorVersion.MatchString(base) {
			return []string{base}
		}
		return []string{base, path.Base(path.Dir(p))} // v1, or module/v2
	}
	for _, i := range r.imports {
		switch {
		case i.name == name:
			return ends(i.path), i.path
		case i.name == "" && slices.Contains(ends(i.path), name):
			from = i.path
		}
	}
	return []string{name}, from
}
