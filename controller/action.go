package controller

import (
	"errors"
	"time"
)

// Action is the result of a reconcile. It decides when the object is reconciled next. A
// change of the object, or of anything that the controller watches, reconciles it again
// with any action. In controller-runtime this is reconcile.Result, in kube-rs it is Action.
//
// After a failure the [Backoff] decides. [After] beside an error makes the retry come
// earlier, never later, and not before Backoff.Min: a reconcile of many parts can fail in
// one of them while another has a time to keep. Such a retry counts for the back-off as any other does. Beside an
// error, [Done] and [Await] have no effect, and beside a [Terminal] one neither has After.
type Action time.Duration

const (
	// Done means that nothing is left to do. The object is reconciled again at the
	// controller's Resync, if it has one. Done is the zero value.
	Done Action = 0
	// Await means that the reconcile awaits something that will show as a change. There
	// is no resync until then. In a cleanup it means that the cleanup is not complete,
	// and the finalizer stays. In kube-rs it is Action::await_change.
	Await Action = -1
)

// After makes the object be reconciled again after a time, or earlier if something
// changes. A time of zero or less means at once, behind the objects that wait. It is
// RequeueAfter of controller-runtime and Action::requeue of kube-rs. Times of less than a
// second are for a few steps: a hundred of them in a row are a hot loop.
func After(d time.Duration) Action { return Action(max(d, 1)) }

// Sooner returns the action that makes the object be reconciled earlier. A reconcile of
// several parts returns the soonest of their actions. [Done] and [Await] come after any
// [After], and Await counts more than Done: its part is not complete.
func Sooner(a, b Action) Action {
	switch {
	case a > 0 && b > 0:
		return min(a, b)
	case a > 0 || b > 0:
		return max(a, b)
	}
	return min(a, b)
}

// Terminal marks an error that a retry cannot mend, such as a senseless spec. The object
// is reconciled again only when something changes, or at a resync. A status that Failed
// writes is such a change: it leads to one more reconcile, unless the controller's
// Predicate leaves it out. Terminal(nil) is nil. It is reconcile.TerminalError of
// controller-runtime.
func Terminal(err error) error {
	if err == nil {
		return nil
	}
	return &terminalError{err}
}

// IsTerminal reports that an error wraps an error that [Terminal] has marked. Its
// counterpart is errors.Is with reconcile.TerminalError(nil) of controller-runtime.
func IsTerminal(err error) bool {
	var t *terminalError
	return errors.As(err, &t)
}

type terminalError struct{ err error }

func (e *terminalError) Error() string { return e.err.Error() }
func (e *terminalError) Unwrap() error { return e.err }
