package manifest

import (
	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
)

// Controls is what a controller does by itself: it keeps stores of the kinds that
// it is for, owns, watches and reads, sets its finalizer if it cleans up, removes former
// ones, and lets its objects own others. Cached reads of these kinds need no other
// right. The requests of the controller's functions must be added: [Applies] for
// Ensure, [AppliesStatus] for EnsureStatus, [Gets] for a Get of a handle.
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

// A controller's handle can be asked like any other.
var _ kube.AnyHandle = kube.Handle[struct{}](nil)
