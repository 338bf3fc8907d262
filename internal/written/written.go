// Package written tells which writes a context has made.
//
// Package kube calls [Tell] for each write that the server has confirmed. A controller
// adds a function with [With], so that it knows its own writes when their changes come.
package written

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
)

// Write is a write that the server has confirmed.
type Write struct {
	Namespace, Name string
	UID             types.UID
	// ResourceVersion is the object's after the write. It is the one before if the
	// write changed nothing. It is empty where the server does not say: of an object
	// that is gone, and of objects that were deleted together.
	ResourceVersion string
	// Deleted says that the object is gone or going.
	Deleted bool
}

// With returns a context whose confirmed writes are told to f. The goroutine that
// makes a write calls f before the call that made the write returns. A second function
// is added to the first.
//
// A write through a subresource is told as a write of the object, if the answer has the
// object's version. Dry runs are not told, nor is a DeleteAll if the server does not
// answer with the objects.
func With(ctx context.Context, f func(Write)) context.Context {
	if outer, ok := ctx.Value(key{}).(func(Write)); ok {
		inner := f
		f = func(w Write) { inner(w); outer(w) }
	}
	return context.WithValue(ctx, key{}, f)
}

type key struct{}

// Tell tells of a write.
func Tell(ctx context.Context, w Write) {
	if f, ok := ctx.Value(key{}).(func(Write)); ok {
		f(w)
	}
}
