package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// ErrGone says that a process has ended (and its id may be another's by now).
var ErrGone = errors.New("process has ended")

// An Identity names one process for ever: ids are used again, an id together
// with the time its process began is not.
type Identity struct {
	PID     int    `json:"pid"`
	Started string `json:"started"` // opaque; equal for the same process only
}

// Identify returns the identity of the running process pid, or [ErrGone].
func Identify(pid int) (Identity, error) {
	started, err := startTime(pid)
	if err != nil {
		return Identity{}, fmt.Errorf("identify process %d: %w", pid, err)
	}
	return Identity{PID: pid, Started: started}, nil
}

// Alive reports whether the process still runs. One that has ended but was not
// yet waited for does not.
func (id Identity) Alive() bool {
	if id.PID <= 0 {
		return false
	}
	started, err := startTime(id.PID)
	return err == nil && started == id.Started
}

// Await returns when ctx ends, or calls ended and returns when the process has
// ended, half a second later at most.
func (id Identity) Await(ctx context.Context, ended func()) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if !id.Alive() {
				ended()
				return
			}
		}
	}
}

// Signal sends a signal to this very process, or returns [ErrGone].
func (id Identity) Signal(sig syscall.Signal) error {
	// The handle is taken before the check: where the system has process
	// handles it cannot come to mean another process in between.
	p, err := os.FindProcess(id.PID)
	if err != nil {
		return fmt.Errorf("signal process %d: %w", id.PID, err)
	}
	defer func() { _ = p.Release() }() // of a handle that nobody waits on
	if !id.Alive() {
		return ErrGone
	}
	if err := p.Signal(sig); errors.Is(err, os.ErrProcessDone) {
		return ErrGone
	} else if err != nil {
		return fmt.Errorf("signal process %d: %w", id.PID, err)
	}
	return nil
}
