package kube

import "context"

// RequestTrace is told of a request before it is sent, and returns the context to
// send it with and a function to call with the answer's status code and duration, or
// with the error if there was no answer. A request that is repeated is told of each
// time.
type RequestTrace func(ctx context.Context, r RequestInfo) (context.Context, func(RequestInfo, error))

// WithRequestTrace returns a context whose requests f is told of. It takes the
// place of another one.
func WithRequestTrace(ctx context.Context, f RequestTrace) context.Context {
	return context.WithValue(ctx, requestTraceKey{}, f)
}

type requestTraceKey struct{}

// traced tells a context's trace of a request.
func traced(ctx context.Context, r RequestInfo) (context.Context, func(RequestInfo, error)) {
	f, ok := ctx.Value(requestTraceKey{}).(RequestTrace)
	if !ok {
		return ctx, func(RequestInfo, error) {}
	}
	return f(ctx, r)
}
