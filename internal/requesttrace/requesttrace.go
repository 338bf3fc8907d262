// Package requesttrace has a program follow the requests that package kube sends.
//
// A trace travels in a context. Package controller adds one with [With] to the contexts of
// its reconciles, and package kube calls it for every request with such a context. A
// program sets Options.Trace of package controller, or gives its client a transport that
// traces.
package requesttrace

import "context"

// Request is a request to the API server. A part is empty if the request names none.
type Request struct {
	Verb   string // get, list, watch, create, update, patch, apply, delete …
	Method string // HTTP method

	Kind, Namespace, Name, Subresource string
}

// Trace is called before a request is sent. It returns the context for the request, and a
// function that is called with the status code of the answer, or with the error if there
// was no answer. If a request is repeated, Trace is called each time.
type Trace func(ctx context.Context, r Request) (context.Context, func(code int, err error))

// With returns a context that has f called for its requests. f replaces the trace that ctx
// has.
func With(ctx context.Context, f Trace) context.Context {
	return context.WithValue(ctx, key{}, f)
}

// Begin calls the trace of a context for a request.
func Begin(ctx context.Context, r Request) (context.Context, func(code int, err error)) {
	f, ok := ctx.Value(key{}).(Trace)
	if !ok {
		return ctx, func(int, error) {}
	}
	return f(ctx, r)
}

type key struct{}
