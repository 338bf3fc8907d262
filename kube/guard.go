package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// guard ends a request if its answer goes silent. Its clock runs only during the wait for
// data. It stands still while the received data is worked on.
type guard struct {
	after  time.Duration
	timer  *time.Timer
	cancel context.CancelCauseFunc
	body   io.Reader
	err    error // error of reading the body, other than its end
	opened time.Time
	// waited is the time that was spent waiting for data.
	waited time.Duration
	// lasts, if it is set, is called once, by the reader. The reader calls it as soon as
	// the answer has been open for lastsAfter, even if no data comes.
	lasts func() error
}

// lastsAfter is how long a watch must be open until it counts as working although it told
// nothing. The server may have had nothing to tell.
const lastsAfter = 3 * time.Second

// newGuard starts the guard's clock with the wait for the answer's headers.
func newGuard(ctx context.Context, after time.Duration) (context.Context, *guard) {
	ctx, cancel := context.WithCancelCause(ctx)
	g := &guard{after: after, cancel: cancel}
	g.timer = time.AfterFunc(after, func() { cancel(errSilent) })
	return ctx, g
}

func (g *guard) stop() {
	g.timer.Stop()
	g.cancel(nil)
}

// reader returns a reader of the answer's body. The headers have come.
func (g *guard) reader(body io.Reader) io.Reader {
	g.timer.Stop()
	g.body, g.opened = body, time.Now()
	return g
}

// open returns the time since the answer's headers came.
func (g *guard) open() time.Duration {
	if g.opened.IsZero() {
		return 0
	}
	return time.Since(g.opened)
}

func (g *guard) Read(p []byte) (n int, err error) {
	g.timer.Reset(g.after)
	defer g.timer.Stop()
	start := time.Now()
	defer func() { g.waited += time.Since(start) }()
	if g.lasts == nil {
		n, err = g.body.Read(p)
	} else {
		n, err = g.readAside(p)
	}
	if err != nil && err != io.EOF { //nolint:errorlint // the body's own end, not one inside an object
		g.err = err
	}
	return n, err
}

// readAside reads in a goroutine of its own, and calls lasts when it is due. The
// goroutine has ended when readAside returns.
func (g *guard) readAside(p []byte) (n int, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		n, err = g.body.Read(p)
	}()
	due := time.NewTimer(lastsAfter - g.open())
	defer due.Stop()
	select {
	case <-done:
		return n, err
	case <-due.C:
	}
	lasts := g.lasts
	g.lasts = nil
	g.timer.Stop() // lasts may take its time
	if failed := lasts(); failed != nil {
		g.cancel(nil)
		<-done
		return 0, failed
	}
	g.timer.Reset(g.after)
	<-done
	return n, err
}

// explain replaces a cancellation by errSilent if errSilent caused it. It replaces the
// error of a decoder by the error that broke the connection.
func (g *guard) explain(ctx context.Context, err error) error {
	var stop *sinkError
	switch {
	case err == nil, errors.As(err, &stop):
		return err
	case errors.Is(context.Cause(ctx), errSilent):
		return fmt.Errorf("%w for %s", errSilent, g.after)
	case g.err != nil && errors.Is(err, g.err):
		return fmt.Errorf("%w: %w", errBroken, g.err)
	}
	return err
}
