package main

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/packages"
)

// checkMac type-checks packages of the workspace for macOS, from source. It takes seconds; compiling
// all that they import takes minutes. Packages for Linux only, which have no files for macOS, are
// left out.
func checkMac(ctx context.Context, repo *Repo, args []string) error {
	env := []string{"GOWORK=" + filepath.Join(repo.Dir, "go.work"), "GOOS=darwin", "GOARCH=arm64", "CGO_ENABLED=0"}
	n, err := checkTypes(ctx, repo.Dir, env, args)
	if err != nil {
		return fmt.Errorf("check for macOS: %w", err)
	}
	if n == 0 {
		return errors.New("check for macOS: no package has files for macOS")
	}
	fmt.Printf("mac: the types of %d packages are right\n", n)
	return nil
}

// checkTypes type-checks packages with an environment, and returns their number.
func checkTypes(ctx context.Context, dir string, env, patterns []string) (n int, err error) {
	roots, err := packages.Load(&packages.Config{
		Context: ctx, Dir: dir, Env: append(os.Environ(), env...), ParseFile: parseTypes,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedDeps | packages.NeedModule | packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesSizes,
	}, patterns...)
	if err != nil {
		return 0, err
	}
	var wrong []error
	for _, p := range roots {
		if len(p.GoFiles) == 0 {
			continue
		}
		n++
		for _, e := range p.Errors {
			wrong = append(wrong, fmt.Errorf("%s: %w", p.PkgPath, e))
		}
	}
	return n, errors.Join(wrong...)
}

// parseTypes parses a file. It leaves out the bodies of functions of other modules, of which only
// the types matter.
func parseTypes(files *token.FileSet, name string, source []byte) (*ast.File, error) {
	file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if file == nil || !strings.Contains(name, "/pkg/mod/") && !strings.HasPrefix(name, build.Default.GOROOT) {
		return file, err
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			f.Body = nil
		}
	}
	return file, err
}
