// Package program builds the operators and runs and ends them as processes, for tests and
// for make run.
//
// A program does not outlive the process that started it, even if that is killed. On
// Linux the kernel kills the program; elsewhere it dies when it writes a line to the
// closed pipe. It is in a process group of its own, so that Ctrl-C in a terminal reaches
// only the process that started it, which then ends the program in order.
package program

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Spec describes the program to run.
type Spec struct {
	Path string
	Args []string
	// Dir is the working directory. Default: this process's working directory.
	Dir string
	// Env is added to this process's environment.
	Env []string
	// Account is the account of the program. Default: this process's.
	Account *syscall.Credential
	// Line, if it is set, is called with each line that the program writes to standard
	// output or standard error, one at a time.
	Line func(string)
}

// Program is a running program, or one that has ended.
type Program struct {
	process *os.Process
	done    chan struct{}
	state   *os.ProcessState // set before done is closed

	mu    sync.Mutex
	lines []string
	more  chan struct{} // closed and replaced at every line
}

// linesKept is the number of remembered lines of a program's output.
const linesKept = 1000

// Start starts a program.
func Start(spec Spec) (*Program, error) {
	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Dir, cmd.Env = spec.Dir, append(os.Environ(), spec.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: spec.Account}
	dieWithParent(cmd.SysProcAttr)
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	cmd.Stdout, cmd.Stderr = write, write
	p := &Program{done: make(chan struct{}), more: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The kernel takes the thread that started the program for its parent.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		write.Close()
		if err != nil {
			read.Close()
			started <- fmt.Errorf("start %s: %w", spec.Path, err)
			return
		}
		p.process = cmd.Process
		started <- nil
		said := make(chan struct{})
		go func() {
			defer close(said)
			p.read(read, spec.Line)
		}()
		_ = cmd.Wait() // state tells how it ended
		// The output is read to its end, unless a child of the program has kept it open.
		select {
		case <-said:
		case <-time.After(time.Second):
			read.Close()
			<-said
		}
		read.Close()
		p.state = cmd.ProcessState
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

func (p *Program) read(from io.Reader, line func(string)) {
	lines := bufio.NewReader(from)
	for {
		text, err := lines.ReadString('\n')
		if text = strings.TrimRight(text, "\n"); text != "" || err == nil {
			p.said(text)
			if line != nil {
				line(text)
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *Program) said(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.lines) == linesKept {
		p.lines = slices.Delete(p.lines, 0, linesKept/2)
	}
	p.lines = append(p.lines, line)
	close(p.more)
	p.more = make(chan struct{})
}

// Lines returns the latest lines of the program's output, and a channel that is closed
// when there are more.
func (p *Program) Lines() ([]string, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.lines), p.more
}

// Await waits until the program has written a line that contains all texts, and returns
// the first such line.
func (p *Program) Await(ctx context.Context, texts ...string) (string, error) {
	for {
		lines, more := p.Lines()
		for _, line := range lines {
			if !slices.ContainsFunc(texts, func(s string) bool { return !strings.Contains(line, s) }) {
				return line, nil
			}
		}
		var why error
		select {
		case <-more:
			continue
		case <-p.done:
			if now, _ := p.Lines(); len(now) > len(lines) {
				continue // the last lines
			}
			why = fmt.Errorf("the program has ended: %s", p.state)
		case <-ctx.Done():
			why = context.Cause(ctx)
		}
		return "", fmt.Errorf("wait for a line with %q: %w; its output:\n%s", texts, why, strings.Join(lines, "\n"))
	}
}

// Done is closed when the program has ended and all of its output has been read.
func (p *Program) Done() <-chan struct{} { return p.done }

// PID is the id of the process.
func (p *Program) PID() int { return p.process.Pid }

// Signal sends a signal. It is no error if the program has already ended.
func (p *Program) Signal(sig os.Signal) error {
	if err := p.process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %v to process %d: %w", sig, p.PID(), err)
	}
	return nil
}

// Wait waits until the program has ended and returns its status. The status is -1 if a
// signal ended the program.
func (p *Program) Wait(ctx context.Context) (int, error) {
	select {
	case <-p.done:
		return p.state.ExitCode(), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("wait for the end of process %d: %w", p.PID(), context.Cause(ctx))
	}
}

// Stop asks the program to end. It kills the program if it has not ended within grace or
// when ctx ends. It returns when the program has ended.
func (p *Program) Stop(ctx context.Context, grace time.Duration) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
	}
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}
