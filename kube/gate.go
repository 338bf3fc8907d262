package kube

import (
	"context"
	"io"
	"net/http"
)

// WithGate returns a context that ends when until does, if not before, and for
// the same cause, and whose requests that write are sent only while open returns
// nil. It is how a program that may act only for a time, because it holds a
// lease, is kept from acting later, wherever the request is made. What it takes
// is freed by stop, which ends the context, or at the end of until.
//
// open is asked right before a request is sent, again when its body leaves, and
// for every repetition; its error is what the request fails with. It is called
// from several goroutines and must not block. Every request but a GET is one
// that writes; exec and port-forward are not asked for. A gate stays in contexts
// that are derived, those of [context.WithoutCancel] too, and what they still
// write ends when until does; a second gate is added to the first.
//
// Caveat: between the last question and the network there remain some
// microseconds, and in front of the server any time: what must not be done late
// needs a precondition that the server checks.
func WithGate(ctx, until context.Context, open func() error) (gated context.Context, stop context.CancelFunc) {
	ctx, stop = endWith(ctx, until)
	return context.WithValue(ctx, gateKey{}, &gate{
		outer: gateOf(ctx),
		open:  open,
		bind:  func(ctx context.Context) (context.Context, context.CancelFunc) { return endWith(ctx, until) },
	}), stop
}

type gateKey struct{}

type gate struct {
	outer *gate
	open  func() error
	bind  func(context.Context) (context.Context, context.CancelFunc)
}

func gateOf(ctx context.Context) *gate {
	g, _ := ctx.Value(gateKey{}).(*gate)
	return g
}

// check returns why a write must not be sent now. A nil gate is always open.
func (g *gate) check() error {
	for ; g != nil; g = g.outer {
		if err := g.open(); err != nil {
			return err
		}
	}
	return nil
}

// gated returns the context of a whole exchange.
func gated(ctx context.Context, method string) (context.Context, context.CancelFunc) {
	release := func() {}
	if method == http.MethodGet {
		return ctx, release
	}
	for g := gateOf(ctx); g != nil; g = g.outer {
		inner := release
		var stop context.CancelFunc
		ctx, stop = g.bind(ctx)
		release = func() { stop(); inner() }
	}
	return ctx, release
}

// pass asks the gate about a request, and has its body ask once more: getting
// credentials and a connection for it may take long.
func pass(req *http.Request) error {
	g := gateOf(req.Context())
	if g == nil || req.Method == http.MethodGet {
		return nil
	}
	if err := g.check(); err != nil {
		return err
	}
	if req.Body == nil || req.Body == http.NoBody {
		return nil
	}
	again := req.GetBody
	req.Body = gatedBody{req.Body, g}
	req.GetBody = func() (io.ReadCloser, error) {
		body, err := again()
		return gatedBody{body, g}, err
	}
	return nil
}

type gatedBody struct {
	io.ReadCloser
	gate *gate
}

func (b gatedBody) Read(p []byte) (int, error) {
	if err := b.gate.check(); err != nil {
		return 0, err
	}
	return b.ReadCloser.Read(p)
}

// endWith returns a context that ends with ctx or with other, and then for the
// same cause.
func endWith(ctx, other context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}
