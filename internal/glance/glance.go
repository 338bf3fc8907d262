// Package glance asks an Ensure of package kube to do no more than look.
//
// A reconcile that applies many objects wants to know which of them are as they should be,
// before it has others apply the rest. Package plan asks with [Only], and package kube
// answers in the [Object].
package glance

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"
)

// Object is an object that is as an Ensure would make it.
type Object struct {
	// UID is that of the object which is meant. The caller sets it.
	UID types.UID
	// Decode decodes the object into a pointer to the handle's type. The object is as the
	// store had it at the time of the Ensure.
	Decode func(into any) error
}

// ErrUnknown is the error of an Ensure in a context of [Only], if a look at the store does
// not tell that nothing would change.
var ErrUnknown = errors.New("the store does not show whether the object would change")

// Only returns a context in which an Ensure neither sends nor waits. If the store shows that
// nothing would change, Ensure sets Decode of o, and returns no object and no error.
// Otherwise it returns [ErrUnknown].
func Only(ctx context.Context, o *Object) context.Context {
	return context.WithValue(ctx, key{}, o)
}

// Asked returns the object of [Only], nil if there is none.
func Asked(ctx context.Context) *Object {
	o, _ := ctx.Value(key{}).(*Object)
	return o
}

type key struct{}
