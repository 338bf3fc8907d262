// Package finalizers tells the finalizers of controllers from those of the garbage collector.
package finalizers

import "slices"

// HasCleanup reports that a controller cleans up before the object is gone: one of its
// finalizers is not the garbage collector's.
func HasCleanup(o interface{ GetFinalizers() []string }) bool {
	return slices.ContainsFunc(o.GetFinalizers(), func(name string) bool { return !OfCollector(name) })
}

// OfCollector reports that a finalizer is one that the garbage collector removes:
// FinalizerOrphanDependents or FinalizerDeleteDependents of package metav1.
func OfCollector(name string) bool { return name == "orphan" || name == "foregroundDeletion" }
