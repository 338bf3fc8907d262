package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settle is the time without further changes after which a change is acted on: editors
// write a file in several steps, and git writes many files.
const settle = 150 * time.Millisecond

// sources returns the directories with the source files of a main package that are in the
// main modules. Sources in the module cache do not change.
func sources(ctx context.Context, pkg string) (map[string]bool, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-e", "-deps", "-json=Dir,Standard,Module,EmbedFiles", pkg)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the sources of %s: %w\n%s", pkg, err, said.String())
	}
	dirs := map[string]bool{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			Dir        string
			Standard   bool
			Module     *struct{ Main bool }
			EmbedFiles []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return dirs, nil
		} else if err != nil {
			return nil, fmt.Errorf("list the sources of %s: %w", pkg, err)
		}
		if p.Standard || p.Module != nil && !p.Module.Main || p.Dir == "" {
			continue
		}
		dirs[p.Dir] = true
		for _, file := range p.EmbedFiles {
			dirs[filepath.Dir(filepath.Join(p.Dir, file))] = true
		}
	}
}

// watch calls changed with the directories of saved files, until ctx ends. It misses no
// file that is saved after it has called ready. The watched directories may change with
// each call of changed: dirs returns them again after it.
func watch(ctx context.Context, dirs func() map[string]bool, ready func(), changed func(map[string]bool)) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch sources: %w", err)
	}
	defer func() { _ = watcher.Close() }() // an error would change nothing at this point
	quiet := time.NewTimer(time.Hour)
	quiet.Stop()
	defer quiet.Stop()
	saved, watched := map[string]bool{}, map[string]bool{}
	tell := sync.OnceFunc(ready)
	for {
		for dir := range dirs() {
			if watched[dir] {
				continue
			}
			if err := watcher.Add(dir); err != nil {
				return fmt.Errorf("watch %s: %w", dir, err)
			}
			watched[dir] = true
		}
		tell()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-watcher.Errors:
			return fmt.Errorf("watch sources: %w", err)
		case e := <-watcher.Events:
			// Tests and the temporary files of editors are not sources.
			name := filepath.Base(e.Name)
			if e.Op == fsnotify.Chmod || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, ".") ||
				strings.HasSuffix(name, "~") {
				continue
			}
			saved[filepath.Dir(e.Name)] = true
			quiet.Reset(settle)
		case <-quiet.C:
			changed(saved)
			saved = map[string]bool{}
		}
	}
}
