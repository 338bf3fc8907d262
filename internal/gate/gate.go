// Package gate stops the late writes of a program that may write only for a time.
//
// A gate travels in a context. [With] adds one. Package kube calls [Bind] and [Pass] for
// every request that it sends with that context. Package lease adds a gate for the time
// for which a lease is held. Package plan calls [Open] before it changes things outside the
// cluster.
//
// A write is a request with another method than GET. Exec and port-forward are GET
// requests, so a gate does not stop them.
package gate

import (
	"context"
	"io"
	"net/http"
)

// With returns a context that ends at the latest when until ends, and then for the same
// cause. A write with this context is sent only while open returns nil.
//
// Package kube calls open right before it sends a request, when the body of the request
// leaves, and before each repetition. The error of open is the error of the request.
// Several goroutines call open, and it must not block.
//
// Contexts that are derived from the returned one keep the gate, also those that
// [context.WithoutCancel] returns: a write with one of them ends when until ends. A
// second gate is added to the first. stop ends the context and frees its resources, as
// the end of until does.
//
// Caveat: some microseconds lie between the last call of open and the network, and any
// time between the network and the server. A write that must not be late needs a
// precondition that the server checks.
func With(ctx, until context.Context, open func() error) (gated context.Context, stop context.CancelFunc) {
	ctx, stop = endWith(ctx, until)
	return context.WithValue(ctx, key{}, &gate{outer: of(ctx), until: until, open: open}), stop
}

type key struct{}

type gate struct {
	outer *gate
	until context.Context //nolint:containedctx // the gate's own end, which requests with a derived context share
	open  func() error
}

func of(ctx context.Context) *gate {
	g, _ := ctx.Value(key{}).(*gate)
	return g
}

// check returns the error of the first gate that is closed. A nil gate is open.
func (g *gate) check() error {
	for ; g != nil; g = g.outer {
		if err := g.open(); err != nil {
			return err
		}
	}
	return nil
}

// Open returns the error of the first closed gate, nil if all are open. It is for calls that
// change something and are no requests to the API server.
func Open(ctx context.Context) error { return of(ctx).check() }

// Bind returns the context of an exchange with the server. An exchange is one request and
// its repetitions. The context of a write ends with the gates, even if ctx does not end.
func Bind(ctx context.Context, method string) (bound context.Context, release context.CancelFunc) {
	release = func() {}
	if method == http.MethodGet {
		return ctx, release
	}
	for g := of(ctx); g != nil; g = g.outer {
		inner := release
		var stop context.CancelFunc
		ctx, stop = endWith(ctx, g.until)
		release = func() { stop(); inner() }
	}
	return ctx, release
}

// Pass returns the error of a closed gate for a request that is about to be sent.
// It also makes the body ask the gates when it leaves, because credentials and a
// connection may take long to get.
func Pass(req *http.Request) error {
	g := of(req.Context())
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
	req.Body = body{req.Body, g}
	req.GetBody = func() (io.ReadCloser, error) {
		b, err := again()
		return body{b, g}, err
	}
	return nil
}

// body is the body of a write.
type body struct {
	io.ReadCloser
	gate *gate
}

func (b body) Read(p []byte) (int, error) {
	if err := b.gate.check(); err != nil {
		return 0, err
	}
	return b.ReadCloser.Read(p)
}

// endWith returns a context that ends with ctx or with other, for the same cause.
func endWith(ctx, other context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}
