package main

import (
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestPackageAPI(t *testing.T) {
	const source = `package kube

import "io"

const Limit = 5
const text = "hidden"

var ErrGone error

type Reader[T any] struct {
	hidden[T]
	io.Closer
	Size int ` + "`json:\"size\"`" + `
	n    int
}

type hidden[T any] struct {
	Inner string
}

func (hidden[T]) Promoted() T { panic(0) }

func (r *Reader[T]) Get(name string, more ...int) (T, error) { panic(0) }
func (r Reader[T]) Count() int { return r.n }
func (r Reader[T]) quiet()     {}

type Kind interface {
	Plural() string
	secret()
}

type Number interface{ ~int | ~string }

type Alias = map[string]io.Reader

type Func func(w io.Writer) error

func For[T any, P interface{ *T; Kind }](r io.Reader) *Reader[T] { panic(0) }
`
	want := []string{
		"pkg kube, const Limit untyped int = 5",
		"pkg kube, func For[T any, P interface{*T; Kind}](io.Reader) *Reader[T]",
		"pkg kube, method (*Reader[T]) Get(string, ...int) (T, error)",
		"pkg kube, method (Reader[T]) Count() int",
		"pkg kube, method (Reader[T]) Promoted() T",
		"pkg kube, type Alias = map[string]io.Reader",
		"pkg kube, type Func func(w io.Writer) error",
		"pkg kube, type Kind interface { Plural, unexported methods }",
		"pkg kube, type Kind interface, Plural() string",
		"pkg kube, type Number interface { ~int | ~string }",
		"pkg kube, type Reader struct, Inner string",
		"pkg kube, type Reader struct, Size int `json:\"size\"`",
		"pkg kube, type Reader struct, embedded io.Closer",
		"pkg kube, type Reader[T any] struct",
		"pkg kube, var ErrGone error",
	}
	got := packageAPI(typeCheck(t, prefix+"/kube", source))
	slices.Sort(got)
	if diff := difference(want, got); len(diff) > 0 {
		t.Errorf("API differs (-want +got):\n%s", strings.Join(diff, "\n"))
	}
}

func TestRenamingAParameterIsNoChange(t *testing.T) {
	a := packageAPI(typeCheck(t, prefix, "package p\n\nfunc F(a, b int) (n int) { return 0 }\n"))
	b := packageAPI(typeCheck(t, prefix, "package p\n\nfunc F(x, y int) int { return 0 }\n"))
	if !slices.Equal(a, b) {
		t.Errorf("got %q and %q", a, b)
	}
}

func typeCheck(t *testing.T, path, source string) *types.Package {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "p.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	config := types.Config{Importer: importer.ForCompiler(fset, "source", nil)}
	p, err := config.Check(path, fset, []*ast.File{file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestGolden(t *testing.T) {
	file := filepath.Join(t.TempDir(), "api", "p.txt")
	if err := golden(file, []string{"b"}, false); !errors.Is(err, errStale) {
		t.Errorf("a missing file: got %v, want errStale", err)
	}
	if err := golden(file, []string{"b", "a", "b"}, true); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "a\nb\n" {
		t.Errorf("wrote %q, %v", data, err)
	}
	if err := golden(file, []string{"a", "b"}, false); err != nil {
		t.Errorf("an unchanged file: %v", err)
	}
	for _, changed := range [][]string{{"a"}, {"a", "b", "c"}, {"a", "c"}} {
		if err := golden(file, changed, false); !errors.Is(err, errStale) {
			t.Errorf("%q: got %v, want errStale", changed, err)
		}
	}
}
