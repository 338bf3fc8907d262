// Package written reports the writes that a context has made.
//
// Package kube calls [Tell] for each write that the server has confirmed. A controller
// adds a function with [With]. With it the controller recognizes its own writes when the
// watch reports them.
package written

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
)

// Write is a write that the server has confirmed.
type Write struct {
	Namespace, Name string
	UID             types.UID
	// ResourceVersion is the object's version after the write. If the write changed
	// nothing, it is the version before. It is empty if the server does not report one:
	// for a deleted object, and for objects that were deleted together.
	ResourceVersion string
	// Deleted is true if the object is deleted or its deletion has begun.
	Deleted bool
}

// With returns a context that calls f for each confirmed write. The goroutine that makes
// a write calls f before the call that made the write returns. A second function is added
// to the first.
//
// A write through a subresource is reported as a write of the object, if the answer has
// the object's version. Dry runs are not reported. A DeleteAll is not reported if the
// server does not answer with the objects.
func With(ctx context.Context, f func(Write)) context.Context {
	if outer, ok := ctx.Value(key{}).(func(Write)); ok {
		inner := f
		f = func(w Write) { inner(w); outer(w) }
	}
	return context.WithValue(ctx, key{}, f)
}

type key struct{}

// Tell reports a write to the functions of the context.
func Tell(ctx context.Context, w Write) {
	if f, ok := ctx.Value(key{}).(func(Write)); ok {
		f(w)
	}
}
