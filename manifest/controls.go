package manifest

import (
	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
)

// Controls is what a controller does by itself: it keeps stores of the kinds that
// it is for, owns and watches, sets its finalizer if it cleans up, removes former
// ones, and lets its objects own others. What its functions do must be added, [Gets] of a kind that
// it owns, watches or reads too, if they read that from a store.
func Controls[T any](c controller.Controller[T]) Rules {
	var rules Rules
	if c.For != nil {
		rules = append(rules, Reads(c.For)...)
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
