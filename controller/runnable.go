package controller

import (
	"context"
	"errors"
	"fmt"
)

// Runnable is one of the program's own functions. It runs beside the controllers. It is
// called when reconciles may start: with a lease, each time that this process acquires
// the lease. It is like controller-runtime's manager.Runnable.
type Runnable struct {
	// Name names the runnable in errors and logs. No two runnables of the program may
	// have the same name.
	Name string
	// Run does the work. Its context ends when the program stops or the lease is lost.
	// Then [Run] waits for it as it waits for reconciles; [lease.Held] returns a context
	// for the last writes. If Run returns an error, or panics, everything else is stopped
	// in order and [Run] returns that error. If Run returns nil, nothing happens.
	Run func(ctx context.Context) error
	// EveryReplica makes the runnable run from the start in every process, even without
	// the lease. In controller-runtime this is NeedLeaderElection of a
	// LeaderElectionRunnable that returns false.
	EveryReplica bool
}

// validate returns the mistake in a runnable.
func (r Runnable) validate() error {
	switch {
	case r.Name == "":
		return errors.New("configure runnable: the name is missing")
	case r.Run == nil:
		return fmt.Errorf("configure runnable %q: Run is missing", r.Name)
	}
	return nil
}
