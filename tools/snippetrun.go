package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// runSnippets compiles the programs. It runs the programs and the commands one after the
// other on one cluster.
func runSnippets(ctx context.Context, repo *Repo, runs []snippet, static bool) (failed error) {
	if len(runs) == 0 {
		return nil
	}
	dir, err := os.MkdirTemp("", "pintle-snippets-")
	if err != nil {
		return fmt.Errorf("make directory for snippets: %w", err)
	}
	defer func() { failed = errors.Join(failed, os.RemoveAll(dir)) }()
	// A reader has only Go's default settings.
	env := append(userEnv(), "GOFLAGS=")
	r := runner{dir: repo.Dir, env: env, timeout: 15 * time.Minute}
	programs := make([]string, len(runs))
	for i, s := range runs {
		if programs[i], err = s.build(ctx, r, dir, i); err != nil {
			return err
		}
	}
	if static {
		return nil
	}
	l := launcher{runner: r, program: []string{"go", "run", "./cluster"}, state: filepath.Join(dir, "cluster")}
	defer func() { failed = errors.Join(failed, l.down(ctx)) }()
	config, err := l.up(ctx)
	if err != nil {
		return fmt.Errorf("start a cluster for snippets: %w", err)
	}
	r.env = append(env, "KUBECONFIG="+config)
	r.timeout = 2 * time.Minute
	var found []error
	for i, s := range runs {
		text, _ := s.until()
		if _, err := r.runUntil(ctx, text, programs[i]); err != nil {
			found = append(found, fmt.Errorf("%s:%d: %w", s.doc, s.line, err))
		}
	}
	return errors.Join(found...)
}

// build makes an executable file of a snippet and returns its path.
func (s snippet) build(ctx context.Context, r runner, dir string, i int) (string, error) {
	program := filepath.Join(dir, fmt.Sprintf("snippet-%d", i))
	if s.lang == "sh" {
		script := "#!/bin/sh\nset -eux\n" + s.text + "\n"
		if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
			return "", fmt.Errorf("write snippet: %w", err)
		}
		return program, nil
	}
	source := filepath.Join(dir, fmt.Sprintf("snippet-%d.go", i))
	if err := os.WriteFile(source, []byte(s.text+"\n"), 0o644); err != nil {
		return "", fmt.Errorf("write snippet: %w", err)
	}
	if err := r.run(ctx, "go", "build", "-o", program, source); err != nil {
		return "", fmt.Errorf("%s:%d: %w", s.doc, s.line, err)
	}
	return program, nil
}
