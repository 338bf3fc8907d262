package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"
)

// packed is the version of the packed modules. The modules require each other at this
// version.
const packed = "v0.1.0"

func packModules(ctx context.Context, repo *Repo, args []string) error {
	flags := flag.NewFlagSet("pack", flag.ContinueOnError)
	dir := flags.String("dir", "", "the directory to write, for GOPROXY=file://DIR")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *dir == "" {
		return fmt.Errorf("pack modules: -dir is missing")
	}
	return pack(ctx, repo, *dir)
}

// pack writes the committed modules into dir in the layout of a module proxy. It leaves
// out uncommitted changes of the working tree, as a release would.
func pack(ctx context.Context, repo *Repo, dir string) error {
	status, err := repo.output(ctx, repo.Dir, "git", "status", "--porcelain")
	if err != nil {
		return fmt.Errorf("read state of the repository: %w", err)
	}
	if status != "" {
		fmt.Printf("pack: %d files differ from the last commit and are packed as committed\n", strings.Count(status, "\n"))
	}
	root, commit, err := mainTree(ctx, repo)
	if err != nil {
		return fmt.Errorf("find the repository: %w", err)
	}
	for _, m := range repo.Modules {
		if err := packModule(ctx, repo, m, root, commit, dir); err != nil {
			return fmt.Errorf("pack module %s: %w", m.Path, err)
		}
		fmt.Printf("pack: %s@%s\n", m.Path, packed)
	}
	return nil
}

// mainTree returns the directory of the repository's main working tree and the last commit
// of this one. CreateFromVCS does not take a further tree of git worktree for a repository.
func mainTree(ctx context.Context, repo *Repo) (root, commit string, err error) {
	out, err := repo.output(ctx, repo.Dir, "git", "rev-parse", "--path-format=absolute", "--git-common-dir", "HEAD")
	if err != nil {
		return "", "", err
	}
	common, commit, _ := strings.Cut(strings.TrimSpace(out), "\n")
	return filepath.Dir(common), commit, nil
}

func packModule(ctx context.Context, repo *Repo, m Module, root, commit, dir string) error {
	path, err := module.EscapePath(m.Path)
	if err != nil {
		return err
	}
	dir = filepath.Join(dir, filepath.FromSlash(path), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	archive, err := os.Create(filepath.Join(dir, packed+".zip"))
	if err != nil {
		return err
	}
	version := module.Version{Path: m.Path, Version: packed}
	if err := modzip.CreateFromVCS(archive, version, root, commit, m.Sub); err != nil {
		return err
	}
	if err := archive.Close(); err != nil {
		return err
	}
	info, err := json.Marshal(map[string]any{"Version": packed, "Time": time.Now().UTC().Truncate(time.Second)})
	if err != nil {
		return err
	}
	mod, err := repo.output(ctx, m.Dir, "git", "show", "HEAD:./go.mod")
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{packed + ".info": info, packed + ".mod": []byte(mod), "list": []byte(packed + "\n")} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
