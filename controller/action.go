package controller

import (
	"errors"
	"time"
)

// Action says what happens to an object next, after a reconcile that went well.
// A change of the object, or of what the controller watches, makes it reconcile
// again whatever the action was.
type Action time.Duration

const (
	// Done says that nothing is left to do. The object is reconciled again at the
	// controller's Resync, if it has one. It is the zero value.
	Done Action = 0
	// Await says that something is awaited which will show as a change. There is no
	// resync until then. In a cleanup: it is not complete, the finalizer stays.
	Await Action = -1
)

// After has the object reconciled again after a time, or earlier if something
// changes. A time of zero or less is at once, behind the objects that wait.
func After(d time.Duration) Action { return Action(max(d, 1)) }

// Terminal marks an error that trying again does not help against, such as a
// spec that makes no sense: the object is reconciled again only when something
// changes, or at a resync. Terminal(nil) is nil.
func Terminal(err error) error {
	if err == nil {
		return nil
	}
	return &terminalError{err}
}

// IsTerminal reports that an error wraps one that [Terminal] has marked.
func IsTerminal(err error) bool {
	var t *terminalError
	return errors.As(err, &t)
}

type terminalError struct{ err error }

func (e *terminalError) Error() string { return e.err.Error() }
func (e *terminalError) Unwrap() error { return e.err }
