// Package finalizers tells the finalizers of controllers from those of the garbage collector.
package finalizers

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// HasCleanup reports that a controller cleans up before the object is gone: one of its
// finalizers is not the garbage collector's.
func HasCleanup(o metav1.Object) bool {
	return slices.ContainsFunc(o.GetFinalizers(), func(name string) bool { return !OfCollector(name) })
}

// OfCollector reports that a finalizer is one that the garbage collector removes.
func OfCollector(name string) bool {
	return name == metav1.FinalizerDeleteDependents || name == metav1.FinalizerOrphanDependents
}
