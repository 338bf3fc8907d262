package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// heavyModules are the modules that a light package must not link.
var heavyModules = []string{"k8s.io/kubernetes/", "github.com/coredns/coredns/"}

// listLight prints the packages of the workspace that do not link Kubernetes itself or
// CoreDNS. make test runs their tests. Tests of the other packages would compile all of
// Kubernetes again, for go vet and for the race detector. The launcher compiles those
// packages, the linters vet them and the cluster's tests run them. So they may have no
// tests of their own, and a test in one of them is an error.
func listLight(ctx context.Context, repo *Repo, _ []string) error {
	var tested []error
	for _, m := range repo.Modules {
		out, err := repo.output(ctx, m.Dir, "go", "list", "-e", "-test", "-json=ImportPath,ForTest,Deps", "./...")
		if err != nil {
			return fmt.Errorf("list packages of %s: %w", m.Path, err)
		}
		packages, err := readPackages(strings.NewReader(out))
		if err != nil {
			return fmt.Errorf("list packages of %s: %w", m.Path, err)
		}
		for _, p := range packages {
			switch {
			case !p.heavy:
				fmt.Println(p.path)
			case p.tested:
				tested = append(
					tested,
					fmt.Errorf(
						"%s or its tests link Kubernetes or CoreDNS, so its tests would not be run: test it through the launcher",
						p.path,
					),
				)
			}
		}
	}
	return errors.Join(tested...)
}

// listed is a package with its tests.
type listed struct {
	path   string
	tested bool // it has tests
	heavy  bool // it or its tests link a heavy module
}

// readPackages reads the output of go list -test -json.
func readPackages(r io.Reader) ([]*listed, error) {
	var packages []*listed
	known := map[string]*listed{}
	for d := json.NewDecoder(r); ; {
		var p struct {
			ImportPath string
			ForTest    string
			Deps       []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("decode package: %w", err)
		}
		path := p.ForTest
		if path == "" {
			path = strings.TrimSuffix(p.ImportPath, ".test")
		}
		of := known[path]
		if of == nil {
			of = &listed{path: path}
			known[path] = of
			packages = append(packages, of)
		}
		of.tested = of.tested || path != p.ImportPath
		of.heavy = of.heavy || slices.ContainsFunc(p.Deps, func(dep string) bool {
			return slices.ContainsFunc(heavyModules, func(m string) bool { return strings.HasPrefix(dep, m) })
		})
	}
}
