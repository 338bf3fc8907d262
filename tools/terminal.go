package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A terminal is a shell that runs commands one after the other, as a person types them. It
// is a process group of its own, so that Ctrl-C reaches all its processes.
type terminal struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	ended chan struct{} // closed when the shell has ended

	mu   sync.Mutex
	seen *tail // of what is printed now
}

// sentinel is printed after commands, with their status.
const sentinel = "--- the status of these commands is "

func openTerminal(dir string, env []string) (*terminal, error) {
	t := &terminal{cmd: exec.Command("sh"), ended: make(chan struct{}), seen: newTail("")}
	t.cmd.Dir, t.cmd.Env = dir, env
	t.cmd.Stdout, t.cmd.Stderr = t, t
	t.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	t.cmd.WaitDelay = 5 * time.Second
	var err error
	if t.stdin, err = t.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("open a terminal: %w", err)
	}
	if err := t.cmd.Start(); err != nil {
		return nil, fmt.Errorf("open a terminal: %w", err)
	}
	go func() {
		_ = t.cmd.Wait() // the status of the commands is printed
		close(t.ended)
	}()
	return t, nil
}

// Write takes the output of the commands.
func (t *terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	seen := t.seen
	t.mu.Unlock()
	return seen.Write(p)
}

// expect returns a tail of the further output, which finds a text.
func (t *terminal) expect(text string) *tail {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen = newTail(text)
	return t.seen
}

// await waits until the text of a tail is printed.
func (t *terminal) await(ctx context.Context, seen *tail) error {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	select {
	case <-seen.found:
		return nil
	case <-t.ended:
		if seen.has() {
			return nil
		}
		return errors.New("a command has ended its shell")
	case <-ctx.Done():
		return fmt.Errorf("wait for %q: %w", seen.text, ctx.Err())
	}
}

// run runs commands to their end and returns their output. Each command has to succeed; if
// fails is true, one of them has to fail.
func (t *terminal) run(ctx context.Context, commands string, fails bool) (string, error) {
	seen := t.expect(sentinel)
	script := "{\nset -e\n" + commands + "\nset +e\n} </dev/null\necho '" + sentinel + "0'\n"
	if fails {
		script = "(\nset -e\n" + commands + "\n) </dev/null\necho '" + sentinel + "'$?\n"
	}
	for line := range strings.Lines(commands) {
		fmt.Print("$ ", line)
	}
	fmt.Println()
	if _, err := io.WriteString(t.stdin, script); err != nil {
		return "", fmt.Errorf("run commands: %w", err)
	}
	if err := t.await(ctx, seen); err != nil {
		return seen.String(), fmt.Errorf("run commands: %w", err)
	}
	said, status, _ := strings.Cut(seen.String(), sentinel)
	if fails && strings.TrimSpace(status) == "0" {
		return said, errors.New("the commands succeed, and the text says that they fail")
	}
	return said, nil
}

// start runs commands that go on, and returns when they have printed a text.
func (t *terminal) start(ctx context.Context, commands, until string) error {
	seen := t.expect(until)
	if _, err := io.WriteString(t.stdin, "set -e\n"+commands+"\n"); err != nil {
		return fmt.Errorf("run commands: %w", err)
	}
	return t.await(ctx, seen)
}

// interrupt is Ctrl-C. It returns when all processes have ended.
func (t *terminal) interrupt() error {
	_ = t.stdin.Close()
	_ = syscall.Kill(-t.cmd.Process.Pid, syscall.SIGINT) // they may have just ended
	return t.wait()
}

// close ends the shell.
func (t *terminal) close() error {
	_ = t.stdin.Close()
	return t.wait()
}

func (t *terminal) wait() error {
	const limit = 30 * time.Second
	select {
	case <-t.ended:
		return nil
	case <-time.After(limit):
		_ = syscall.Kill(-t.cmd.Process.Pid, syscall.SIGKILL)
		<-t.ended
		return fmt.Errorf("the commands did not end within %s", limit)
	}
}
