// Package lifeline ends a process when the process that started it is gone.
//
// The starter keeps the write end of a pipe and passes the read end to its children. When
// the starter ends, for any reason, the kernel closes the pipe and every child reads the
// end of file. This needs no signal, no polling and no process id, and works on every
// Unix.
// Unix.
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

// Grace is the time that a process has to end by itself after its lifeline is cut.
const Grace = 5 * time.Second

// Watch starts to watch the lifeline that was passed to this process, if there is one.
// When the lifeline is cut, the process gets SIGTERM, and is killed after [Grace]. The
// process's own children do not inherit the lifeline.
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
		_, _ = pipe.Read(make([]byte, 1)) // no data is ever written: Read returns when the pipe is closed
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		time.Sleep(Grace)
		os.Exit(1)
	}()
}
