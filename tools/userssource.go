package main

import (
	"context"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/packages"
)

// A workspace is the source of all modules, with types.
type workspace struct {
	dir      string
	fset     *token.FileSet
	packages []*packages.Package
	sources  []source
}

// A source is a package or the tests of one, in which symbols may be used.
type source struct {
	path  string
	files []*ast.File
	info  *types.Info
}

// loadWorkspace reads the modules' packages and tests. It leaves out the cluster's internal
// packages, because they link Kubernetes and use nothing.
func loadWorkspace(ctx context.Context, repo *Repo) (*workspace, error) {
	w := &workspace{dir: repo.Dir, fset: token.NewFileSet()}
	var patterns []string
	for _, m := range repo.Modules {
		switch m.Sub {
		case "":
			patterns = append(patterns, "./...")
		case "cluster":
			patterns = append(patterns, "./cluster/image")
		default:
			patterns = append(patterns, "./"+m.Sub+"/...")
		}
	}
	config := &packages.Config{
		Context: ctx, Dir: repo.Dir, Env: repo.goldenEnv(), Fset: w.fset,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedTypes | packages.NeedSyntax |
			packages.NeedTypesInfo,
	}
	var err error
	if w.packages, err = packages.Load(config, patterns...); err != nil {
		return nil, fmt.Errorf("load packages: %w", err)
	}
	known := make(knownPackages)
	for _, p := range w.packages {
		for _, e := range p.Errors {
			return nil, fmt.Errorf("load package %s: %w", p.PkgPath, e)
		}
		known.add(p.Types)
		w.sources = append(w.sources, source{p.PkgPath, p.Syntax, p.TypesInfo})
	}
	for _, p := range w.packages {
		if err := w.readTests(p, known); err != nil {
			return nil, fmt.Errorf("read tests of %s: %w", p.PkgPath, err)
		}
	}
	return w, nil
}

// readTests reads the tests of a package. It compiles nothing, and goes on where it does not
// know the type of something: tests import packages that no program of the workspace does.
func (w *workspace) readTests(p *packages.Package, known knownPackages) error {
	if len(p.GoFiles) == 0 {
		return nil
	}
	dir := filepath.Dir(p.GoFiles[0])
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	system := build.Default
	system.GOOS, system.GOARCH, system.CgoEnabled = "linux", "amd64", false
	inside, outside := append([]*ast.File(nil), p.Syntax...), []*ast.File(nil)
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		if match, err := system.MatchFile(dir, e.Name()); err != nil || !match {
			continue
		}
		f, err := parser.ParseFile(w.fset, filepath.Join(dir, e.Name()), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if f.Name.Name == p.Name {
			inside = append(inside, f)
		} else {
			outside = append(outside, f)
		}
	}
	if len(inside) > len(p.Syntax) {
		w.checkTests(p.PkgPath, inside, len(p.Syntax), known)
	}
	if len(outside) > 0 {
		w.checkTests(p.PkgPath+"_test", outside, 0, known)
	}
	return nil
}

// checkTests finds the types in files, of which the first are no tests.
func (w *workspace) checkTests(path string, files []*ast.File, first int, known knownPackages) {
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	config := types.Config{Importer: known, Error: func(error) {}}
	_, _ = config.Check(path, w.fset, files, info)
	w.sources = append(w.sources, source{path, files[first:], info})
}

// knownPackages holds the packages of the workspace and those that they import.
type knownPackages map[string]*types.Package

func (k knownPackages) add(p *types.Package) {
	if k[p.Path()] != nil {
		return
	}
	k[p.Path()] = p
	for _, q := range p.Imports() {
		k.add(q)
	}
}

// Import implements [types.Importer]. The packages are complete as far as others use them.
func (k knownPackages) Import(path string) (*types.Package, error) {
	if p := k[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("no package of the workspace imports %s", path)
}
