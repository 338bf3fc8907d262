package kube

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Written is a write that the server has confirmed.
type Written struct {
	Kind Kind
	Key  Key
	UID  types.UID
	// ResourceVersion is the object's after the write. It is the one before if
	// the write changed nothing, and empty where the server does not say: of what
	// a deletion has removed, and of all that a DeleteAll was answered with.
	ResourceVersion string
	// Deleted: the object is gone or going.
	Deleted bool
}

// WithRecorder returns a context whose confirmed writes are told to f, from the
// goroutine that made them, before the call that made them returns. What is
// written through a [Subresource] is told as a write of the object, if the answer
// says of which version. Dry runs are not told of, nor is a DeleteAll by a server
// that does not answer with the objects. A second recorder is added to the first.
func WithRecorder(ctx context.Context, f func(Written)) context.Context {
	if outer, ok := ctx.Value(recorderKey{}).(func(Written)); ok {
		inner := f
		f = func(w Written) { inner(w); outer(w) }
	}
	return context.WithValue(ctx, recorderKey{}, f)
}

type recorderKey struct{}

// confirmed tells the recorder of a write that was answered with o.
func confirmed(ctx context.Context, kind Kind, o metav1.Object) {
	if f, ok := ctx.Value(recorderKey{}).(func(Written)); ok {
		f(Written{Kind: kind, Key: KeyOf(o), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(), Deleted: o.GetDeletionTimestamp() != nil})
	}
}

// confirmedDeletion tells the recorder of an object that is gone.
func confirmedDeletion(ctx context.Context, kind Kind, key Key, uid types.UID) {
	if f, ok := ctx.Value(recorderKey{}).(func(Written)); ok {
		f(Written{Kind: kind, Key: key, UID: uid, Deleted: true})
	}
}
