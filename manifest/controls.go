package manifest

import (
	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
)

// Controls returns the rights that a controller needs by itself. A controller keeps
// stores of the kinds that it is for, owns, watches and reads. It sets its finalizer if it
// has a cleanup, removes former finalizers, and makes its objects the owners of others.
// Cached reads of these kinds need no other right. Add the rights that the controller's
// functions need: [Applies] for Ensure, [AppliesStatus] for EnsureStatus, [Gets] for a Get
// of a handle.
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

// AnyHandle's methods can be called on a controller's handle.
var _ kube.AnyHandle = kube.Handle[struct{}](nil)
