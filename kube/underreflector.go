package kube

import (
	"errors"
	"reflect"
	"runtime"
)

// The reflector of a store calls code of the program: the functions of indexes, the
// methods by which types decode themselves, log handlers and observers of requests. Such
// code may read a store. If the store is not filled, that read would wait for the very
// goroutine that it runs on. So would the read of an index by the function of that index, and the
// read of an object about which the server is being asked.
// So a read looks at its callers before it waits for a first sync, for an index, for the answer to
// another reader's question, or for a list.

// errWaitsForItself is the error of a read that would wait for ever.
var errWaitsForItself = errors.New("a store waits for the code that reads: " +
	"functions of indexes, log handlers and observers must not read a store that is not filled, " +
	"an index that is being built, nor objects that the server is being asked for")

// asReflector calls f, which calls code of the program for which a store, an index or
// another reader waits. A goroutine that calls such code calls asReflector too, because the stack of its
// starter is not seen.
//
//go:noinline
func asReflector(f func()) { f() }

// underReflector reports that the caller runs below asReflector.
func underReflector() bool { return runsBelow(asReflector) }

// runsBelow reports that a function is among the callers.
func runsBelow(of func(func())) bool {
	root := runtime.FuncForPC(reflect.ValueOf(of).Pointer()).Name()
	var callers [64]uintptr
	for skip := 1; ; skip += len(callers) {
		n := runtime.Callers(skip, callers[:])
		frames := runtime.CallersFrames(callers[:n])
		for more := n > 0; more; {
			var frame runtime.Frame
			if frame, more = frames.Next(); frame.Function == root {
				return true
			}
		}
		if n < len(callers) {
			return false
		}
	}
}

// waitsForItself returns the error of such a read, and logs it now and then. The log
// handler may be the code that reads: the line is then logged once.
func (t *table) waitsForItself() error {
	if c := t.handle.client; c.warnings.fresh("reads under reflector: " + t.handle.kindName()) {
		c.logger.Warn("a read of a store failed", "kind", t.handle.kindName(), "error", errWaitsForItself)
	}
	return errWaitsForItself
}
