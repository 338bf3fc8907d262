package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// checkTidy checks each module's go.mod and go.sum. go mod tidy alone cannot do it,
// because the modules require each other at a version that is published only when all of
// them are. Here each module is checked outside the workspace, as its users get it. The directories of
// the checkout replace the other modules. In the workspace another module's go.mod would
// hide a missing line, and go run MODULE@VERSION would then fail.
//
// All modules name the versions that the workspace selects. So the packages that were
// compiled in the workspace, such as Kubernetes, serve a user of one module too.
func checkTidy(ctx context.Context, repo *Repo, args []string) error {
	write, err := writeFlag("tidy", args)
	if err != nil {
		return err
	}
	selected, err := selectedVersions(ctx, repo)
	if err != nil {
		return err
	}
	var failed error
	for _, m := range repo.Modules {
		err := tidy(ctx, repo, m, selected, write)
		switch {
		case errors.Is(err, errUntidy):
			failed = err
			fmt.Println(err)
		case err != nil:
			return fmt.Errorf("tidy %s: %w", m.Path, err)
		default:
			fmt.Printf("tidy: %s\n", m.Path)
		}
	}
	return failed
}

// selectedVersions returns the version of each module that the workspace selects.
func selectedVersions(ctx context.Context, repo *Repo) (map[string]string, error) {
	out, err := repo.output(ctx, repo.Dir, "go", "list", "-m", "-f", "{{.Path}} {{.Version}}", "all")
	if err != nil {
		return nil, fmt.Errorf("list the modules of the workspace: %w", err)
	}
	selected := map[string]string{}
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) == 2 {
			selected[f[0]] = f[1]
		}
	}
	return selected, nil
}

// raise returns the arguments of go mod edit that give a go.mod the selected versions.
func raise(mod string, selected map[string]string) (edit []string, err error) {
	data, err := os.ReadFile(mod)
	if err != nil {
		return nil, fmt.Errorf("read module: %w", err)
	}
	file, err := modfile.Parse(mod, data, nil)
	if err != nil {
		return nil, fmt.Errorf("parse module: %w", err)
	}
	for _, r := range file.Require {
		if v := selected[r.Mod.Path]; v != "" && v != r.Mod.Version && !ours(r.Mod.Path) {
			edit = append(edit, "-require="+r.Mod.Path+"@"+v)
		}
	}
	return edit, nil
}

var errUntidy = errors.New("go.mod or go.sum is not tidy: run make tidy and commit the result")

func tidy(ctx context.Context, repo *Repo, m Module, selected map[string]string, write bool) (failed error) {
	dir, err := os.MkdirTemp("", "pintle-tidy-")
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, os.RemoveAll(dir)) }()
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(m.Dir, name))
		if err != nil && (name != "go.sum" || !errors.Is(err, os.ErrNotExist)) {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return err
		}
	}
	mod := filepath.Join(dir, "go.mod")
	raised, err := raise(mod, selected)
	if err != nil {
		return err
	}
	replace, drop := append([]string{"mod", "edit"}, raised...), []string{"mod", "edit"}
	for _, other := range repo.Modules {
		if other.Path != m.Path {
			replace = append(replace, "-replace="+other.Path+"="+other.Dir)
			drop = append(drop, "-dropreplace="+other.Path)
		}
	}
	for _, command := range [][]string{append(replace, mod), {"mod", "tidy", "-modfile=" + mod}, append(drop, mod)} {
		if _, err := repo.runOff(ctx, m.Dir, "go", command...); err != nil {
			return err
		}
	}
	return errors.Join(
		replaceOrCompare(filepath.Join(m.Dir, "go.mod"), mod, write),
		replaceOrCompare(filepath.Join(m.Dir, "go.sum"), filepath.Join(dir, "go.sum"), write),
	)
}

// replaceOrCompare gives file the content of tidied, or compares the two.
func replaceOrCompare(file, tidied string, write bool) error {
	want, err := os.ReadFile(tidied)
	if err != nil {
		return err
	}
	have, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	want = keepOwn(have, want)
	if string(have) == string(want) {
		return nil
	}
	if write {
		return os.WriteFile(file, want, 0o644)
	}
	for _, line := range difference(strings.Split(string(have), "\n"), strings.Split(string(want), "\n")) {
		fmt.Println(line)
	}
	return fmt.Errorf("%s: %w", file, errUntidy)
}

// keepOwn adds to want the checksums of the repository's own modules that have contains.
// Such checksums exist once a version is published. tidy leaves them out, because it has
// directories in place of these modules.
func keepOwn(have, want []byte) []byte {
	lines := slices.Collect(strings.Lines(string(want)))
	added := false
	for line := range strings.Lines(string(have)) {
		fields := strings.Fields(line)
		if len(fields) == 3 && strings.HasPrefix(fields[2], "h1:") && ours(fields[0]) {
			lines, added = append(lines, line), true
		}
	}
	if !added {
		return want
	}
	slices.Sort(lines)
	return []byte(strings.Join(lines, ""))
}
