package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// A Process is a process that a [Group] started. It is safe for concurrent use.
type Process struct {
	Name string

	id    Identity
	log   string
	begun int64 // where its lines begin in the log
	done  chan struct{}
	err   error // how it ended; set before done is closed
}

// PID returns the process's id, for people to read. To act on the process, use the
// methods.
func (p *Process) PID() int { return p.id.PID }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns an error that describes how the process ended, with the last lines of its
// log. It is nil until Done is closed.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return &ExitError{Name: p.Name, Status: p.err, Log: p.log, LastLines: LastWords(p.log, p.begun, 8)}
	default:
		return nil
	}
}

// Signal sends a signal. It is no error if the process has ended.
func (p *Process) Signal(sig syscall.Signal) error {
	if err := p.id.Signal(sig); err != nil && !errors.Is(err, ErrGone) {
		return fmt.Errorf("send %v to %s: %w", sig, p.Name, err)
	}
	return nil
}

// Pause stops the process (SIGSTOP); its connections stay open and silent. On Linux all
// of its threads have stopped when Pause returns, unless that takes five seconds. This
// matters if the supervisor ends: the kernel then continues its stopped children, so that
// they end too, but not a child that is just about to stop.
func (p *Process) Pause() error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for deadline := time.Now().Add(5 * time.Second); !stopped(p.id.PID) && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	return nil
}

// Resume continues a paused process.
func (p *Process) Resume() error { return p.Signal(syscall.SIGCONT) }

// Kill ends the process at once. It does not wait for Done.
func (p *Process) Kill() error { return p.Signal(syscall.SIGKILL) }

// Stop asks the process to end (SIGTERM), kills it if it has not ended within grace or
// when ctx ends, and returns once it has ended.
func (p *Process) Stop(ctx context.Context, grace time.Duration) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := p.Resume(); err != nil { // a paused process does not act on SIGTERM
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
	_ = os.Remove(record) // if the record stays, Sweep finds no process for it
	close(p.done)
}

// An ExitError reports that a process has ended.
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
	hint := false // the kernel has one error for two limits, and only the other one is well known
	for _, line := range e.LastLines {
		text += "\n    " + line
		hint = hint || strings.Contains(line, "too many open files")
	}
	if hint {
		text += "\nIf the system has too few inotify instances for all programs: sysctl -w fs.inotify.max_user_instances=1024"
	}
	return text
}

func (e *ExitError) Unwrap() error { return e.Status }
