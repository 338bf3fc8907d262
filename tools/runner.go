package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A runner runs commands as a person would, and shows their output at once.
type runner struct {
	dir     string
	env     []string
	timeout time.Duration // of one command
}

// run runs a command to its end.
func (r runner) run(ctx context.Context, name string, args ...string) error {
	_, err := r.runUntil(ctx, "", name, args...)
	return err
}

// runUntil runs a command until it has printed text. With text "" it runs the command to
// its end. It returns the output. A command that has printed text is interrupted as by
// Ctrl-C. If it does not end, it is killed.
//
// The command is a process group of its own, so the processes that it started end with
// it.
func (r runner) runUntil(ctx context.Context, text, name string, args ...string) (string, error) {
	line := strings.Join(append([]string{name}, args...), " ")
	fmt.Printf("$ %s\n", line)
	begun := time.Now()
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	seen := newTail(text)
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = r.dir, r.env
	cmd.Stdout, cmd.Stderr = seen, seen
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("start %s: %w", line, err)
	}
	var err error
	ended := make(chan struct{})
	go func() {
		err = cmd.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		if text != "" && !seen.has() {
			err = errors.Join(err, fmt.Errorf("ended without printing %q", text))
		}
	case <-seen.found:
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) // it may have just ended
		select {
		case <-ended:
			err = nil // its status does not matter, because it was told to stop
		case <-time.After(20 * time.Second):
			cancel()
			<-ended
			err = errors.New("did not stop within 20 s of an interrupt")
		}
	}
	if ctx.Err() != nil && err != nil {
		err = fmt.Errorf("%w after %v", err, r.timeout)
	}
	if err != nil {
		return seen.String(), fmt.Errorf("run %s: %w", line, err)
	}
	fmt.Printf("  done in %.1f s\n", time.Since(begun).Seconds())
	return seen.String(), nil
}

// tail shows and keeps all that is written to it, and finds a text in it.
type tail struct {
	mu    sync.Mutex
	all   strings.Builder
	text  string
	found chan struct{}
}

func newTail(text string) *tail { return &tail{text: text, found: make(chan struct{})} }

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	had := t.hasLocked()
	t.all.Write(p)
	if !had && t.hasLocked() {
		close(t.found)
	}
	return os.Stdout.Write(p)
}

func (t *tail) hasLocked() bool { return t.text != "" && strings.Contains(t.all.String(), t.text) }

func (t *tail) has() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.hasLocked()
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all.String()
}

// A launcher is the cluster command, from the checkout or from a release, for
// one cluster.
type launcher struct {
	runner
	program []string // go run ./cluster
	state   string   // the cluster's directory
}

// up starts a cluster with a simulated node and returns the path of its kubeconfig.
func (l launcher) up(ctx context.Context, flags ...string) (string, error) {
	if err := l.command(ctx, append([]string{"up", "--nodes=1"}, flags...)...); err != nil {
		return "", err
	}
	config := filepath.Join(l.state, "kubeconfig")
	if _, err := os.Stat(config); err != nil {
		return "", fmt.Errorf("find kubeconfig of the cluster just started: %w", err)
	}
	return config, nil
}

// down ends the cluster, even if the work on it was interrupted.
func (l launcher) down(ctx context.Context) error {
	return l.command(context.WithoutCancel(ctx), "down", "--delete")
}

func (l launcher) command(ctx context.Context, args ...string) error {
	line := append(append(append([]string{}, l.program...), "--dir", l.state), args...)
	return l.run(ctx, line[0], line[1:]...)
}

// writeFiles writes files of the given paths below dir and makes their directories.
func writeFiles(dir string, files map[string]string) error {
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return fmt.Errorf("write file: %w", err)
		}
	}
	return nil
}
