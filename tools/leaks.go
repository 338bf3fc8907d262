package main

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// exempt is the directive by which a package gives the reason why it has no leak check.
const exempt = "//leaks:exempt"

// checkLeaks finds packages that start goroutines but whose tests do not check for leaked
// ones. It reads the source, so it sees go statements, WaitGroup.Go and errgroup's Go,
// time.AfterFunc and context.AfterFunc. It does not see goroutines that called packages
// start.
func checkLeaks(_ context.Context, repo *Repo, _ []string) error {
	var found []error
	checked := 0
	modules := slices.Clone(repo.Modules)
	// These are outside the workspace, but ours. bench measures the code of others.
	for _, sub := range []string{"tools", "operators/thirdparty"} {
		modules = append(modules, Module{Path: prefix + "/" + sub, Dir: filepath.Join(repo.Dir, sub), Sub: sub})
	}
	for _, m := range modules {
		err := m.packageDirs(func(dir string) error {
			p, err := readGoroutines(dir)
			if err != nil {
				return err
			}
			if len(p.starts) == 0 {
				return nil
			}
			checked++
			if problem := p.problem(); problem != "" {
				rel, err := filepath.Rel(repo.Dir, dir)
				if err != nil {
					return err
				}
				found = append(found, fmt.Errorf("%s starts goroutines (%s) %s", rel, strings.Join(p.starts, ", "), problem))
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("read %s: %w", m.Path, err)
		}
	}
	if len(found) == 0 {
		fmt.Printf("leaks: all %d packages that start goroutines check for leaked ones\n", checked)
	}
	return errors.Join(found...)
}

// goroutines holds the findings about one directory's source.
type goroutines struct {
	starts    []string // file:line of each statement that starts one
	verified  bool     // TestMain checks for leaked goroutines
	exempted  bool
	exemption string
}

func (p goroutines) problem() string {
	switch {
	case p.exempted && p.exemption == "":
		return "and has an exemption without a reason"
	case p.exempted && p.verified:
		return "and has an exemption although its TestMain checks for leaks"
	case p.exempted, p.verified:
		return ""
	}
	return "but no TestMain of its tests calls leak.Run or goleak.VerifyTestMain"
}

// readGoroutines reads the source files of one directory.
func readGoroutines(dir string) (goroutines, error) {
	var p goroutines
	entries, err := os.ReadDir(dir)
	if err != nil {
		return p, err
	}
	for _, e := range entries {
		if e.IsDir() || !strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(
			fset, filepath.Join(dir, e.Name()), nil, parser.ParseComments|parser.SkipObjectResolution,
		)
		if err != nil {
			return p, fmt.Errorf("parse source: %w", err)
		}
		p.readComments(file)
		test := strings.HasSuffix(e.Name(), "_test.go")
		ast.Inspect(file, func(n ast.Node) bool {
			if startsGoroutine(n) && len(p.starts) < 3 {
				p.starts = append(p.starts, fmt.Sprintf("%s:%d", e.Name(), fset.Position(n.Pos()).Line))
			}
			if f, ok := n.(*ast.FuncDecl); ok && test && f.Recv == nil && f.Name.Name == "TestMain" {
				p.verified = p.verified || callsGoleak(f)
			}
			return true
		})
	}
	return p, nil
}

func (p *goroutines) readComments(file *ast.File) {
	for _, group := range file.Comments {
		for _, c := range group.List {
			if why, ok := strings.CutPrefix(c.Text, exempt); ok {
				p.exempted = true
				p.exemption = strings.TrimSpace(why)
			}
		}
	}
}

// startsGoroutine reports whether the node starts a goroutine. A method called Go with a
// function as its only argument is that of WaitGroup, of errgroup, or a similar one.
func startsGoroutine(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt:
		return true
	case *ast.CallExpr:
		sel, ok := n.Fun.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		pkg, _ := sel.X.(*ast.Ident)
		switch sel.Sel.Name {
		case "Go":
			return len(n.Args) == 1
		case "AfterFunc":
			return pkg != nil && (pkg.Name == "time" || pkg.Name == "context")
		}
	}
	return false
}

// callsGoleak reports whether the function looks for leaked goroutines, by itself or by one of
// our packages that do.
func callsGoleak(f *ast.FuncDecl) bool {
	return names(f, "goleak", "VerifyTestMain", "Find") || names(f, "leak", "Run") || names(f, "optest", "Main")
}

// names reports whether the function names one of these functions of a package.
func names(f *ast.FuncDecl, pkg string, functions ...string) bool {
	found := false
	ast.Inspect(f, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			x, _ := sel.X.(*ast.Ident)
			found = found || x != nil && x.Name == pkg && slices.Contains(functions, sel.Sel.Name)
		}
		return !found
	})
	return found
}
