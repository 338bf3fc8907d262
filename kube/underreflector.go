package kube

import (
	"errors"
	"reflect"
	"runtime"
)

// The reflector of a store calls code of the program: the functions of indexes, the
// methods by which types decode themselves, log handlers and observers of requests. Such
// code may read a store. If the store is not filled, that read would wait for the very
// goroutine that it runs on. So a read looks at its callers before it waits for a first
// sync.

// errWaitsForItself is the error of a read that would wait for ever.
var errWaitsForItself = errors.New("a store waits for the code that reads: " +
	"functions of indexes, log handlers and observers must not read a store that is not filled")

// asReflector calls f, which calls code of the program for which a store waits.
//
//go:noinline
func asReflector(f func()) { f() }

// underReflector reports that the caller runs below asReflector.
func underReflector() bool {
	root := runtime.FuncForPC(reflect.ValueOf(asReflector).Pointer()).Name()
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
