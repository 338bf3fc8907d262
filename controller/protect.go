package controller

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// panicError is the error of one of the program's functions that panicked, or that ended
// its goroutine: then value is errGoexit. In controller-runtime the option RecoverPanic
// makes an error of a panic.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string {
	if e.value == any(errGoexit) {
		return errGoexit.Error()
	}
	return fmt.Sprintf("panic: %v", e.value)
}

// Unwrap returns the value of the panic if it is an error.
func (e *panicError) Unwrap() error {
	err, _ := e.value.(error)
	return err
}

// errGoexit is wrapped by the error of a function that has ended its goroutine.
var errGoexit = errors.New("the function ended its goroutine, by runtime.Goexit or a test's FailNow")

// brokenBy returns the error of a function that did not return. It takes the value that
// recover has returned. It must be called by the deferred function.
func brokenBy(recovered any) error {
	if recovered == nil {
		recovered = errGoexit // a panic(nil) recovers as another value
	}
	if err, ok := recovered.(error); ok && unreadable(err) != nil {
		recovered = fmt.Sprintf("%v", err)
	}
	return &panicError{value: recovered, stack: debug.Stack()}
}

// protect calls f. It returns a panic of f, or the end of f's goroutine, as an error. It
// calls f on a goroutine of its own, because nothing can stop the end of a goroutine.
// That takes half a microsecond.
func protect(f func() error) error {
	result := make(chan error, 1)
	go func() {
		returned := false
		defer func() {
			if !returned {
				result <- brokenBy(recover())
			}
		}()
		err := f()
		returned = true
		result <- err
	}()
	return <-result
}

// unreadable returns the panic of an error's methods as an error, nil if they do not
// panic. The methods of a nil pointer, for instance, may panic.
func unreadable(err error) (broken error) {
	if err == nil {
		return nil
	}
	defer func() {
		if v := recover(); v != nil {
			broken = &panicError{value: fmt.Sprintf("read an error of type %T: %v", err, v), stack: debug.Stack()}
		}
	}()
	_ = err.Error()
	_ = errors.Is(err, new(unlike)) || errors.As(err, new(*unlike)) // these read all that it wraps
	return nil
}

// unlike is an error that no other error is or wraps.
type unlike struct{ _ byte }

func (*unlike) Error() string { return "" }

// stackOf returns the stack of a panic, nothing for another error.
func stackOf(err error) string {
	if p := (*panicError)(nil); errors.As(err, &p) {
		return string(p.stack)
	}
	return ""
}
