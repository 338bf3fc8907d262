package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
)

// forbidden lists the packages that the root module must never link, with the reason. An
// entry covers the package and everything below it.
var forbidden = []struct{ path, why string }{
	{"k8s.io/client-go/kubernetes", "the clientset links every API group"},
	{"k8s.io/client-go/informers", "package kube watches and stores by itself"},
	{"k8s.io/client-go/listers", "package kube watches and stores by itself"},
	{"k8s.io/client-go/tools/cache", "package kube watches and stores by itself"},
	{"k8s.io/client-go/tools/leaderelection", "it links the clientset, a binary of 23.5 MB"},
	{"k8s.io/client-go/dynamic", "package kube has handles for kinds known at run time"},
	{"k8s.io/apiextensions-apiserver", "definitions are plain structs here"},
	{"k8s.io/apiserver", "only the aggregate module serves APIs"},
	{"k8s.io/kubernetes", "only the cluster module runs Kubernetes"},
	{"sigs.k8s.io/controller-runtime", "this is an alternative to it"},
}

// checkDeps compares the packages that the root module links with the golden file. The
// file lists each of them with the packages of ours that import it.
func checkDeps(ctx context.Context, repo *Repo, args []string) error {
	write, err := writeFlag("deps", args)
	if err != nil {
		return err
	}
	out, err := repo.output(ctx, repo.Dir, "go", "list", "-deps", "-json=ImportPath,Standard,Deps", "./...")
	if err != nil {
		return fmt.Errorf("list dependencies: %w", err)
	}
	closure, err := readClosure(strings.NewReader(out))
	if err != nil {
		return fmt.Errorf("list dependencies: %w", err)
	}
	return errors.Join(
		checkForbidden(closure),
		golden(filepath.Join(repo.Dir, "api", "deps.txt"), describeClosure(closure), write),
	)
}

// A closure maps each package from outside the repository and the standard library to the
// packages of ours that link it.
type closure map[string][]string

// readClosure reads the output of go list -deps -json.
func readClosure(r io.Reader) (closure, error) {
	type pkg struct {
		ImportPath string
		Standard   bool
		Deps       []string
	}
	var own []pkg
	standard := map[string]bool{"C": true, "unsafe": true}
	for d := json.NewDecoder(r); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("decode package: %w", err)
		}
		standard[p.ImportPath] = p.Standard
		if ours(p.ImportPath) {
			own = append(own, p)
		}
	}
	c := closure{}
	for _, p := range own {
		name := strings.TrimPrefix(p.ImportPath, prefix+"/")
		for _, dep := range p.Deps {
			if !standard[dep] && !ours(dep) {
				c[dep] = append(c[dep], name)
			}
		}
	}
	return c, nil
}

func ours(path string) bool {
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

func describeClosure(c closure) []string {
	lines := []string{
		"# Packages that the root module links on linux beside the standard library, and which of its own need them.",
	}
	for dep, names := range c {
		slices.Sort(names)
		lines = append(lines, dep+": "+strings.Join(names, " "))
	}
	return lines
}

// checkForbidden returns an error for each package that must not be linked.
func checkForbidden(c closure) error {
	var found []error
	for dep, names := range c {
		for _, f := range forbidden {
			if dep == f.path || strings.HasPrefix(dep, f.path+"/") {
				slices.Sort(names)
				found = append(
					found, fmt.Errorf("%s must not be linked (%s), but %s needs it", dep, f.why, strings.Join(names, " ")),
				)
			}
		}
	}
	slices.SortFunc(found, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(found...)
}
