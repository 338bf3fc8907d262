package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// guard ends a request whose answer goes silent. Its clock runs only while the
// answer is waited for, not while what came is worked on.
type guard struct {
	after  time.Duration
	timer  *time.Timer
	cancel context.CancelCauseFunc
	body   io.Reader
	err    error // of reading the body, but for its end
}

// newGuard starts with the wait for the answer's headers.
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

func (g *guard) reader(body io.Reader) io.Reader {
	g.timer.Stop()
	g.body = body
	return g
}

func (g *guard) Read(p []byte) (int, error) {
	g.timer.Reset(g.after)
	defer g.timer.Stop()
	n, err := g.body.Read(p)
	if err != nil && err != io.EOF {
		g.err = err
	}
	return n, err
}

// explain puts errSilent in place of the cancellation that it caused, and what
// broke the connection in place of what a decoder made of it.
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
