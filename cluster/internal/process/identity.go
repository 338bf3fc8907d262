package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// ErrGone reports that a process has ended. Another process may have its id by now.
var ErrGone = errors.New("process has ended")

// An Identity identifies one process for ever. Process ids are reused, but an id together
// with the start time of its process is not.
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

// Alive reports whether the process still runs. A process that has ended but was not yet
// waited for does not run.
func (id Identity) Alive() bool {
	if id.PID <= 0 {
		return false
	}
	started, err := startTime(id.PID)
	return err == nil && started == id.Started
}

// Await returns when ctx ends. If the process ends first, Await calls ended and returns,
// at most half a second later.
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
	// The handle is taken before the check. On a system with process handles, it cannot
	// refer to another process in between.
	p, err := os.FindProcess(id.PID)
	if err != nil {
		return fmt.Errorf("signal process %d: %w", id.PID, err)
	}
	defer func() { _ = p.Release() }() // a handle needs no Wait
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
