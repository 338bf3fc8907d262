// Package finalizers tells the finalizers of controllers from those of the garbage collector.
package finalizers

import (
	"context"
	"slices"
)

type ownKey struct{}

// With returns a context for the functions of a controller that cleans up its objects if they have the
// finalizer own. It is empty for a controller that does not clean up.
func With(ctx context.Context, own string) context.Context {
	return context.WithValue(ctx, ownKey{}, own)
}

// CleansUp reports that the controller of ctx cleans up before the object is gone. Other programs' finalizers
// say nothing about that. Without a controller of ours any finalizer may be its.
func CleansUp(ctx context.Context, o interface{ GetFinalizers() []string }) bool {
	if own, ok := ctx.Value(ownKey{}).(string); ok {
		return own != "" && slices.Contains(o.GetFinalizers(), own)
	}
	return HasCleanup(o)
}

// HasCleanup reports that some controller cleans up before the object is gone: one of its
// finalizers is not the garbage collector's.
func HasCleanup(o interface{ GetFinalizers() []string }) bool {
	return slices.ContainsFunc(o.GetFinalizers(), func(name string) bool { return !OfCollector(name) })
}

// OfCollector reports that a finalizer is one that the garbage collector removes:
// FinalizerOrphanDependents or FinalizerDeleteDependents of package metav1.
func OfCollector(name string) bool { return name == "orphan" || name == "foregroundDeletion" }
