package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// errNoUser is the error of an exported symbol that nobody outside its package needs.
var errNoUser = errors.New("exported symbols have no user: let an operator, an example or a guide use each, " +
	"name its counterpart in a peer in its comment, or take it back")

// checkUsers compares api/users.txt with the users of the exported symbols. A symbol is a
// constant, variable, function or type of a package, a method of a type other than an
// interface, or a field without a json tag, which belongs to a wire format. Packages of
// operators have none: they are users. The file names one user of each symbol: the first of
// these that exists.
//
//   - an operator: a package of operators
//   - an example: a file example*_test.go
//   - a guide: README.md or a file of docs, by a snippet or by a name such as kube.Kind; or by
//     the last part of a name that only one symbol has
//   - the template of a new operator, or another command
//   - a test of an operator
//   - an interface of the standard library, of apimachinery or of this repository that a
//     method satisfies
//   - a symbol with a user whose type names the type, or a type with a user one of whose
//     fields with a json tag names it
//   - a peer: the symbol's comment says that its counterpart is something of the peer
//
// The check fails if a symbol has none, also with -write. A use in another of our packages
// does not count: a symbol that only they need belongs into an internal package. A symbol
// that had no user when this check was made stands in the file with nobody. Such a line may
// go, and no run adds one.
func checkUsers(ctx context.Context, repo *Repo, write bool) error {
	guides, err := readGuides(repo.Dir)
	if err != nil {
		return fmt.Errorf("read the users of the API: %w", err)
	}
	workspace, err := loadWorkspace(ctx, repo)
	if err != nil {
		return fmt.Errorf("read the users of the API: %w", err)
	}
	file := filepath.Join(repo.Dir, "api", "users.txt")
	before, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the users of the API: %w", err)
	}
	known := strings.Split(string(before), "\n")
	var lines []string
	missing := 0
	for _, s := range findUsers(workspace, guides) {
		line := s.name + ": " + cmp.Or(s.user.name, nobody)
		if s.user.name == "" && !slices.Contains(known, line) {
			fmt.Println("users.txt: no user of", s.name)
			missing++
			continue
		}
		lines = append(lines, line)
	}
	err = golden(file, lines, write)
	if missing > 0 {
		err = errors.Join(err, fmt.Errorf("%d %w", missing, errNoUser))
	}
	return err
}

// nobody stands in the place of a user.
const nobody = "nobody yet"

// A place says where an object is declared. It identifies the object in all variants of a
// package, and a method or field of a generic type in all its instances.
type place struct {
	file         string
	line, column int
}

func (w *workspace) place(pos token.Pos) place {
	p := w.fset.Position(pos)
	return place{p.Filename, p.Line, p.Column}
}

// A symbol is something that other packages can name.
type symbol struct {
	name  string // as in kube.Handle.Get
	obj   types.Object
	owner *types.Named // the type of a method or field
	user  user
}

// A user justifies a symbol. The kind of less rank is named before the others.
type user struct {
	rank rank
	name string
}

type rank int

const (
	byOperator rank = iota
	byExample
	byGuide
	byCommand
	byOperatorTest
	byInterface
	bySignature
	byPeer
)

// better reports whether to name the user a and not b.
func (a user) better(b user) bool {
	return b.name == "" || cmp.Or(cmp.Compare(a.rank, b.rank), strings.Compare(a.name, b.name)) < 0
}

func (s *symbol) usedBy(u user) {
	if u.better(s.user) {
		s.user = u
	}
}

// findUsers lists the exported symbols of the packages that others can import, each with its
// user if it has one.
func findUsers(w *workspace, guides []guide) []*symbol {
	var all []*symbol
	comments := make(map[place]string)
	for _, p := range w.packages {
		if importable(p) {
			all = append(all, packageSymbols(p.Types)...)
			w.readComments(p.Syntax, comments)
		}
	}
	byPlace := make(map[place][]*symbol)
	for _, s := range all {
		at := w.place(s.obj.Pos())
		byPlace[at] = append(byPlace[at], s)
	}
	for _, src := range w.sources {
		for _, f := range src.files {
			w.readUses(src, f, guides, byPlace)
		}
	}
	index := newMentions(all)
	for _, g := range guides {
		for _, s := range index.in(g.code) {
			s.usedBy(user{byGuide, g.name})
		}
	}
	for _, s := range all {
		if peer := counterpart(comments[w.place(s.obj.Pos())]); peer != "" {
			s.usedBy(user{byPeer, "counterpart in " + peer})
		}
	}
	useByTypes(w, all, byPlace)
	slices.SortFunc(all, func(a, b *symbol) int { return strings.Compare(a.name, b.name) })
	return all
}

// importable reports whether a package is one that other modules can import, and
// no operator's.
func importable(p *packages.Package) bool {
	path := strings.Split(p.PkgPath, "/")
	return p.Name != "main" && !slices.Contains(path, "internal") && !slices.Contains(path, "operators")
}

// relative returns the part of a package's path that follows the repository's.
func relative(path string) string { return strings.TrimPrefix(strings.TrimPrefix(path, prefix), "/") }

// packageSymbols lists the exported symbols of a package.
func packageSymbols(p *types.Package) []*symbol {
	var all []*symbol
	add := func(obj types.Object, owner *types.Named, name string) {
		all = append(all, &symbol{name: relative(p.Path()) + "." + name, obj: obj, owner: owner})
	}
	for _, name := range p.Scope().Names() {
		obj := p.Scope().Lookup(name)
		if !obj.Exported() {
			continue
		}
		add(obj, nil, name)
		named, ok := obj.Type().(*types.Named)
		if _, isType := obj.(*types.TypeName); !ok || !isType {
			continue
		}
		member := func(m types.Object) { add(m, named, name+"."+m.Name()) }
		switch under := named.Underlying().(type) {
		case *types.Struct:
			eachField(p, under, member)
		case *types.Interface:
			continue
		}
		for sel := range types.NewMethodSet(types.NewPointer(named)).Methods() {
			m, ok := sel.Obj().(*types.Func)
			if ok && m.Exported() && m.Pkg() == p && declaredOrHidden(named, sel.Index()) {
				member(m)
			}
		}
	}
	return all
}

// eachField calls visit for the exported fields of a struct, and for those that an unexported
// embedded type of the package promotes. An embedded field has its user by its type.
func eachField(p *types.Package, s *types.Struct, visit func(types.Object)) {
	for i := range s.NumFields() {
		f := s.Field(i)
		if f.Embedded() {
			under, ok := deref(f.Type()).Underlying().(*types.Struct)
			if ok && !f.Exported() && f.Pkg() == p {
				eachField(p, under, visit)
			}
			continue
		}
		if _, wire := reflect.StructTag(s.Tag(i)).Lookup("json"); f.Exported() && !wire {
			visit(f)
		}
	}
}

// readUses gives the symbols that a file names their user.
func (w *workspace) readUses(src source, f *ast.File, guides []guide, symbols map[place][]*symbol) {
	file, err := filepath.Rel(w.dir, w.fset.Position(f.Pos()).Filename)
	if err != nil {
		return
	}
	file = filepath.ToSlash(file)
	by, counts := userOf(relative(src.path), file)
	ast.Inspect(f, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok {
			return true
		}
		obj := src.info.Uses[id]
		if obj == nil || obj.Pkg() == nil || obj.Pkg().Path() == src.path {
			return true
		}
		for _, s := range symbols[w.place(obj.Pos())] {
			if counts {
				s.usedBy(by)
			}
			for _, g := range guides {
				if g.shows(file, w.fset.Position(id.Pos()).Line) {
					s.usedBy(user{byGuide, g.name})
				}
			}
		}
		return true
	})
}

// userOf returns the user that a file is, if it is one.
func userOf(pkg, file string) (user, bool) {
	dir, base := filepath.Split(file)
	dir = strings.TrimSuffix(dir, "/")
	test := strings.HasSuffix(base, "_test.go")
	switch {
	case strings.HasPrefix(dir, "operators/") && !test:
		return user{byOperator, dir}, true
	case strings.HasPrefix(dir, "operators/"):
		return user{byOperatorTest, "test of " + dir}, true
	case test && strings.HasPrefix(base, "example"):
		return user{byExample, file}, true
	case strings.HasPrefix(pkg, "cmd/"):
		return user{byCommand, dir}, true
	}
	return user{}, false
}

// readComments collects the comments of all declarations, by the place of the declared name.
func (w *workspace) readComments(files []*ast.File, comments map[place]string) {
	note := func(docs *ast.CommentGroup, names ...*ast.Ident) {
		for _, n := range names {
			comments[w.place(n.Pos())] = docs.Text()
		}
	}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				note(n.Doc, n.Name)
				return false
			case *ast.Field:
				note(cmp.Or(n.Doc, n.Comment), n.Names...)
			case *ast.GenDecl:
				if len(n.Specs) == 1 {
					if t, ok := n.Specs[0].(*ast.TypeSpec); ok && t.Doc == nil {
						t.Doc = n.Doc
					}
					if v, ok := n.Specs[0].(*ast.ValueSpec); ok && v.Doc == nil {
						v.Doc = n.Doc
					}
				}
			case *ast.TypeSpec:
				note(n.Doc, n.Name)
			case *ast.ValueSpec:
				note(cmp.Or(n.Doc, n.Comment), n.Names...)
			}
			return true
		})
	}
}
