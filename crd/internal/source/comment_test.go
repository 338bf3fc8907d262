package source

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

func TestComments(t *testing.T) {
	source := `
// Package doc.
package echo

import "fmt"

// Plain is
// plain.
type Plain struct {
	// Above is above.
	Above string // and behind
	Behind string // Behind is behind.
	None string

	// Detached.

	Far string
	// A and B share.
	A, B int
	// Embedded is embedded.
	Embedded
	// Pointer is too.
	*Pointer ` + "`json:\",inline\"`" + `
	// Foreign is of another package.
	other.Foreign
	// Deep is a struct.
	Deep struct { // not this
		// Inner is inside.
		Inner []struct {
			// Innermost is there.
			Innermost map[string]*struct {
				X int // X is deepest.
			}
		}
		Last int /* block */
	} ` + "`json:\"deep\"`" + ` // not this either
	// F is a function.
	F func(a struct{ B int }) (c int)
	// M is a map.
	M map[struct{ K int }]string
	//nolint:all // for tools
	// N is noted.
	// +kubebuilder:validation:Minimum=1
	N int
}

type (
	// One is in a group.
	One struct {
		// X is of One.
		X int
	}
	// Two is an alias.
	Two = One
)

// Generic has a parameter.
type Generic[T any] struct {
	// V is a T.
	V T
}

/* Block is a
block. */
type Block int

func f() {
	// Local is not found.
	type Local struct {
		// X is not found.
		X int
	}
	fmt.Println("}", '}', ` + "`}`" + `)
}

// Long has paragraphs
// and lists:
//   - one
//   - two
//
// The end.
// ---
// Not this.
type Long int
`
	found, err := Read(fstest.MapFS{"dir/a.go": {Data: []byte(source)}, "b.txt": {Data: []byte("// no")}})
	if err != nil {
		t.Fatal(err)
	}
	got := found.docs
	want := map[string]string{
		"echo.Plain": "Plain is plain.", "echo.Plain.Above": "Above is above.", "echo.Plain.Behind": "Behind is behind.",
		"echo.Plain.A": "A and B share.", "echo.Plain.B": "A and B share.", "echo.Plain.Embedded": "Embedded is embedded.",
		"echo.Plain.Pointer": "Pointer is too.", "echo.Plain.Foreign": "Foreign is of another package.",
		"echo.Plain.Deep":       "Deep is a struct.",
		"echo.Plain.Deep.Inner": "Inner is inside.", "echo.Plain.Deep.Inner.Innermost": "Innermost is there.",
		"echo.Plain.Deep.Inner.Innermost.X": "X is deepest.", "echo.Plain.Deep.Last": "block",
		"echo.Plain.F": "F is a function.",
		"echo.Plain.M": "M is a map.", "echo.Plain.N": "N is noted.",
		"echo.One": "One is in a group.", "echo.One.X": "X is of One.", "echo.Two": "Two is an alias.",
		"echo.Generic": "Generic has a parameter.", "echo.Generic.V": "V is a T.", "echo.Block": "Block is a block.",
		"echo.Long": "Long has paragraphs and lists:\n  - one\n  - two\n\nThe end.",
	}
	for k := range maps.Keys(want) {
		if got[k] != want[k] {
			t.Errorf("%s: %q, want %q", k, got[k], want[k])
		}
	}
	for k := range got {
		if _, ok := want[k]; !ok {
			t.Errorf("%s: %q is not wanted", k, got[k])
		}
	}
	if _, err := Read(fstest.MapFS{"a.go": {Data: []byte("package a\nvar x = \"unclosed\n")}}); err == nil ||
		!strings.Contains(err.Error(), "a.go:2") {
		t.Errorf("broken source: %v", err)
	}
}

// commentReader finds the same comments as go/parser in the sources of k8s.io/api.
func TestCommentsAsGoParser(t *testing.T) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/api").Output()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "*", "v*", "types.go"))
	if err != nil || len(files) < 30 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	compared := 0
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		found, want := empty(), comments{}
		if err := found.read(name, data); err != nil {
			t.Fatal(err)
		}
		got := found.docs
		file, err := parser.ParseFile(token.NewFileSet(), name, data, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE {
				for _, s := range g.Specs {
					s := s.(*ast.TypeSpec)
					doc := s.Doc
					if doc == nil && !g.Lparen.IsValid() {
						doc = g.Doc
					}
					want.parsed(file.Name.Name+"."+s.Name.Name, doc, nil, s.Type)
				}
			}
		}
		compared += len(want)
		for k := range want {
			if got[k] != want[k] {
				t.Errorf("%s: %s:\n got  %q\n want %q", name, k, got[k], want[k])
			}
		}
		for k := range got {
			if _, ok := want[k]; !ok {
				t.Errorf("%s: %s: go/parser does not find it", name, k)
			}
		}
	}
	t.Logf("%d comments compared", compared)
}

type comments map[string]string

// parsed reads the comments of a type with go/ast. commentReader must find the same.
func (c comments) parsed(key string, doc, behind *ast.CommentGroup, typ ast.Expr) {
	text := func(g *ast.CommentGroup) string {
		var list []string
		if g != nil {
			for _, l := range g.List {
				list = append(list, l.Text)
			}
		}
		return commentText(list)
	}
	if s := text(doc); s != "" {
		c[key] = s
	} else if s := text(behind); s != "" {
		c[key] = s
	}
	for {
		switch e := typ.(type) {
		case *ast.StarExpr:
			typ = e.X
			continue
		case *ast.ArrayType:
			typ = e.Elt
			continue
		case *ast.MapType:
			typ = e.Value
			continue
		case *ast.StructType:
			for _, f := range e.Fields.List {
				names := f.Names
				if len(names) == 0 {
					embedded := f.Type
					if s, ok := embedded.(*ast.StarExpr); ok {
						embedded = s.X
					}
					switch e := embedded.(type) {
					case *ast.Ident:
						names = []*ast.Ident{e}
					case *ast.SelectorExpr:
						names = []*ast.Ident{e.Sel}
					}
				}
				for _, n := range names {
					c.parsed(key+"."+n.Name, f.Doc, f.Comment, f.Type)
				}
			}
		}
		return
	}
}

func FuzzComments(f *testing.F) {
	f.Add("package a\n// A is\ntype A struct {\n// B\nB int // c\n}\n")
	f.Add("package a\ntype (A struct{B struct{C int}}; D = *[]map[string]func(){})")
	f.Fuzz(func(_ *testing.T, source string) {
		_ = empty().read("a.go", []byte(source))
	})
}
