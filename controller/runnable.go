package controller

import (
	"context"
	"errors"
	"fmt"
)

// Runnable is a function of the program's own that has the life of its controllers.
// It is called when reconciles may start: with a lease, each time that this process
// gets the lease. It is like controller-runtime's manager.Runnable.
type Runnable struct {
	// Name names it in errors and logs. It must be its own in the program.
	Name string
	// Run does the work. Its context ends when the program stops or the lease is
	// lost, and [Run] waits for it as it waits for reconciles: [lease.Held] returns
	// a context for writes that belong to its end. If it returns an error, or
	// panics, all else is stopped in order and [Run] returns that error. Nothing
	// happens if it returns nil.
	Run func(ctx context.Context) error
	// EveryReplica has it run from the start in every process, also in those that
	// do not hold the lease.
	EveryReplica bool
}

// validate returns what is wrong with a runnable.
func (r Runnable) validate() error {
	switch {
	case r.Name == "":
		return errors.New("configure runnable: the name is missing")
	case r.Run == nil:
		return fmt.Errorf("configure runnable %q: Run is missing", r.Name)
	}
	return nil
}
