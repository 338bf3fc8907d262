package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// ErrAsked is the cause of a context that ended on request.
var ErrAsked = errors.New("asked to stop")

// Context returns a context that ends on SIGINT, SIGTERM and SIGHUP, and when the process
// that started this one has ended. A second signal ends the program at once.
func Context(out *Output) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	go awaitSignals(out, cancel)
	go awaitOrphaned(ctx, cancel)
	return ctx
}

func awaitSignals(out *Output, cancel context.CancelCauseFunc) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	first := <-signals
	cancel(fmt.Errorf("%w by signal: %v", ErrAsked, first))
	out.Say("stopping everything; press Ctrl-C again to stop at once")
	<-signals
	os.Exit(1)
}

// awaitOrphaned ends the program when the go command that runs it was killed, because a
// killed go command passes no signal on.
func awaitOrphaned(ctx context.Context, cancel context.CancelCauseFunc) {
	parent := os.Getppid()
	for ctx.Err() == nil {
		if os.Getppid() != parent {
			cancel(fmt.Errorf("%w: the process that started this one has ended", ErrAsked))
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
}
