package manifest

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
)

// Controls returns the rights that a controller needs by itself. A controller keeps stores
// of the kinds that it is for, owns, watches and reads. It sets its finalizer if it has a
// cleanup, removes former finalizers, and makes its objects the owners of others. Cached
// reads of these kinds need no other right. Add the rights that the controller's functions
// need: [Applies] for Ensure, [AppliesStatus] for EnsureStatus, [Gets] for a Get of a
// handle. The rights stand for the markers +kubebuilder:rbac of kubebuilder.
func Controls[T any](c controller.Controller[T]) Rules {
	var rules Rules
	if c.For != nil {
		rules = append(rules, Watches(c.For)...)
		if c.Cleanup != nil || len(c.FormerFinalizers) > 0 {
			rules = append(rules, Patches(c.For)...)
		}
		if len(c.Owns) > 0 {
			rules = append(rules, Blocks(c.For)...)
		}
	}
	rules = append(rules, Watches(c.Owns...)...)
	rules = append(rules, Watches(c.Reads...)...)
	for _, s := range c.Watches {
		if objects, ok := s.Objects(); ok {
			rules = append(rules, Watches(objects)...)
		}
	}
	return rules
}

// Keeps returns the rights that a plan of package plan needs for its children: to apply
// them, to look at them, and to delete them. For StatefulSets these include the rights to
// list PersistentVolumeClaims and to grow them. Pass the handles in the Owns of the
// controller. Add [AppliesStatus] for the owners, [Gets] for other kinds that the plan reads
// without a store, and [Lists] of pods if late workloads should say why their pods are not
// ready.
func Keeps(children ...kube.AnyHandle) Rules {
	rules := slices.Concat(Applies(children...), Gets(children...), Deletes(children...))
	for _, c := range children {
		if k := c.Kind(); k.Group == "apps" && k.Kind == "StatefulSet" {
			claims := kube.For[corev1.PersistentVolumeClaim](c.Client()).In(c.Namespaces()...)
			rules = append(rules, may([]kube.AnyHandle{claims}, "", "list", "patch")...)
		}
	}
	return rules
}

// AnyHandle's methods can be called on a controller's handle.
var _ kube.AnyHandle = kube.Handle[struct{}](nil)
