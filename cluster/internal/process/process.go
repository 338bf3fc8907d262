package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// A Process is one that a [Group] started. It is safe for concurrent use.
type Process struct {
	Name string

	id   Identity
	log  string
	done chan struct{}
	err  error // how it ended; set before done is closed
}

// PID returns the process's id, for people to read. To act on it use methods.
func (p *Process) PID() int { return p.id.PID }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err says how the process ended, with the last lines of its log. It is nil
// until Done is closed.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return &ExitError{Name: p.Name, Status: p.err, Log: p.log, LastLines: Tail(p.log, 8)}
	default:
		return nil
	}
}

// Signal sends a signal. A process that has ended is not an error.
func (p *Process) Signal(sig syscall.Signal) error {
	if err := p.id.Signal(sig); err != nil && !errors.Is(err, ErrGone) {
		return fmt.Errorf("send %v to %s: %w", sig, p.Name, err)
	}
	return nil
}

// Pause stops the process where it is; its connections stay open and silent. On
// Linux all its threads have stopped when Pause returns, unless that takes five
// seconds: the kernel wakes the stopped children of a supervisor that ends, so
// that they end too, but not those that are about to stop.
func (p *Process) Pause() error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for deadline := time.Now().Add(5 * time.Second); !stopped(p.id.PID) && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	return nil
}

// Resume lets a paused process go on.
func (p *Process) Resume() error { return p.Signal(syscall.SIGCONT) }

// Kill ends the process at once; it does not wait for Done.
func (p *Process) Kill() error { return p.Signal(syscall.SIGKILL) }

// Stop asks the process to end (SIGTERM), kills it when it has not within
// grace or when ctx ends, and returns once it has ended.
func (p *Process) Stop(ctx context.Context, grace time.Duration) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := p.Resume(); err != nil { // a paused one cannot see SIGTERM
		return err
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	if err := p.Kill(); err != nil {
		return err
	}
	<-p.done
	return nil
}

func (p *Process) wait(cmd *exec.Cmd, record string) {
	p.err = cmd.Wait()
	_ = os.Remove(record) // when it cannot be removed, Sweep will find nobody under it
	close(p.done)
}

// An ExitError says that a process has ended.
type ExitError struct {
	Name      string
	Status    error // nil for status 0
	Log       string
	LastLines []string
}

func (e *ExitError) Error() string {
	status := "exit status 0"
	if e.Status != nil {
		status = e.Status.Error()
	}
	text := fmt.Sprintf("%s has ended (%s); the end of %s:", e.Name, status, e.Log)
	for _, line := range e.LastLines {
		text += "\n    " + line
	}
	return text
}

func (e *ExitError) Unwrap() error { return e.Status }
