package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

// heavyModules are what a package need only link to be heavy.
var heavyModules = []string{"k8s.io/kubernetes/", "github.com/coredns/coredns/"}

// listHeavy prints the packages of the workspace that link Kubernetes itself or
// CoreDNS, or the others. The heavy ones are tested without the race detector:
// with it all of that would have to be compiled a second time.
func listHeavy(ctx context.Context, repo *Repo, args []string) error {
	flags := flag.NewFlagSet("heavy", flag.ContinueOnError)
	not := flags.Bool("not", false, "print the packages that are not heavy")
	if err := flags.Parse(args); err != nil {
		return err
	}
	for _, m := range repo.Modules {
		out, err := repo.output(ctx, m.Dir, "go", "list", "-e", "-test", "-json=ImportPath,ForTest,Deps", "./...")
		if err != nil {
			return fmt.Errorf("list packages of %s: %w", m.Path, err)
		}
		paths, heavy, err := readHeavy(strings.NewReader(out))
		if err != nil {
			return fmt.Errorf("list packages of %s: %w", m.Path, err)
		}
		for _, path := range paths {
			if heavy[path] != *not {
				fmt.Println(path)
			}
		}
	}
	return nil
}

// readHeavy reads what go list -test -json prints: the packages in its order,
// and which of them are heavy, they or their tests.
func readHeavy(r io.Reader) (paths []string, heavy map[string]bool, err error) {
	heavy = map[string]bool{}
	for d := json.NewDecoder(r); ; {
		var p struct {
			ImportPath string
			ForTest    string
			Deps       []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return paths, heavy, nil
		} else if err != nil {
			return nil, nil, fmt.Errorf("decode package: %w", err)
		}
		path := p.ForTest
		if path == "" {
			path = strings.TrimSuffix(p.ImportPath, ".test")
		}
		if path == p.ImportPath {
			paths = append(paths, path)
		}
		for _, dep := range p.Deps {
			for _, m := range heavyModules {
				if strings.HasPrefix(dep, m) {
					heavy[path] = true
				}
			}
		}
	}
}
