// Package lifeline ends a process when the one that started it is gone.
//
// The starter keeps the write end of a pipe and hands the read end to its
// children; when it ends, however it ends, the kernel closes the pipe and every
// child reads the end of file. It needs no signal, no polling and no process
// id, and works on every Unix.
package lifeline

import (
	"os"
	"strconv"
	"syscall"
	"time"
)

// Variable is the environment variable that holds the number of the inherited
// file descriptor.
const Variable = "PINTLE_LIFELINE"

// Grace is how long a process has to end by itself after its lifeline is cut.
const Grace = 5 * time.Second

// Watch starts to watch the lifeline that was handed to this process, if there
// is one. When it is cut, the process gets SIGTERM, and is ended after [Grace].
// The process's own children do not inherit the lifeline.
func Watch() {
	fd, err := strconv.Atoi(os.Getenv(Variable))
	if err != nil {
		return
	}
	if err := os.Unsetenv(Variable); err != nil {
		return
	}
	syscall.CloseOnExec(fd)
	pipe := os.NewFile(uintptr(fd), "lifeline")
	go func() {
		_, _ = pipe.Read(make([]byte, 1)) // nothing is ever written: it returns when the pipe is closed
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		time.Sleep(Grace)
		os.Exit(1)
	}()
}
