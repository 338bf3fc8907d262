package source

import (
	"cmp"
	"go/token"
	"iter"
	"path"
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
	// pkg is the package around the expression.
	pkg string
	// qualifier is the name of the type's package, if the import has no other one.
	qualifier string
	qualified bool
	// paths are the import paths that its package can have: those of the dot imports if the
	// type has no qualifier and is not in the package around.
	paths []string
	// steps lead from a value of the expression to the value of the named type: items in
	// []Y, values in map[string]Y.
	steps   []string
	pointer bool
	alias   bool // declared with an equals sign
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
	if name := d.pkg + "." + d.name; !d.qualified && s.Has(name) {
		return name
	}
	for _, path := range d.paths {
		for _, p := range s.At(path, d.qualifier) {
			if name := p.Type(d.name); s.Has(name) {
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
			d := s.declaredAs(n)
			for _, p := range d.paths {
				if (d.qualifier == "" || d.qualifier == path.Base(p)) && s.find(d) == "" && !yield(p, d.name) {
					return
				}
			}
		}
	}
}

// Alias returns the name of the alias that a field or type is declared with, or "". The
// steps lead from a value of the field or type to the value of the alias.
func (s Source) Alias(name string) (alias string, steps []string) {
	for d := s.types[name]; ; d = s.declaredAs(alias) {
		next := s.find(d)
		if !s.types[next].alias || next == alias {
			return alias, steps
		}
		alias, steps = next, slices.Concat(steps, d.steps)
	}
}

// Steps to the elements of a list and to those of a map.
const (
	Items  = "items"
	Values = "values"
)

// named reads the type expression that follows, up to the first type that it names. It
// does not move.
func (r *commentReader) named() (d declaration) {
	defer func(pos int) { r.pos = pos }(r.pos)
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
			d.name, d.pkg = l.text, r.pkg
			switch {
			case r.at(token.PERIOD):
				r.next()
				d.name, d.qualified = r.next().text, true
				d.qualifier, d.paths = r.packagesOf(l.text)
			case slices.Contains(r.params, l.text):
				return declaration{}
			case token.IsExported(l.text):
				_, d.paths = r.packagesOf(".")
			}
			return d
		case token.LPAREN: // around a type
		default:
			return declaration{}
		}
	}
}

// parameters reads the names of the parameters of a generic type, and skips the rest.
func (r *commentReader) parameters() {
	r.params = nil
	if !r.at(token.LBRACK) {
		return
	}
	first, second := r.list[min(r.pos+1, len(r.list)-1)].Token, r.list[min(r.pos+2, len(r.list)-1)].Token
	if first != token.IDENT || !slices.Contains(afterParameter, second) {
		return
	}
	start := r.pos
	r.next()
	r.skip()
	for i := start + 1; i < r.pos; i++ {
		if before := r.list[i-1].Token; before == token.LBRACK || before == token.COMMA {
			r.params = append(r.params, r.list[i].text)
		}
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
		case token.IDENT, token.PERIOD:
			name = cmp.Or(l.text, ".")
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

// packagesOf returns the paths of the packages that a file can have imported under a name.
// If the name is the package's own, it is the qualifier as well.
func (r *commentReader) packagesOf(name string) (qualifier string, paths []string) {
	for _, i := range r.imports {
		if i.name == name {
			paths = append(paths, i.path)
		}
	}
	if paths != nil || name == "." {
		return "", paths
	}
	for _, i := range r.imports {
		if i.name == "" {
			paths = append(paths, i.path)
		}
	}
	return name, paths
}
