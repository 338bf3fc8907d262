package controller

import "github.com/pintle-go/pintle/kube"

// Handles are the handles that a controller uses by itself, besides its functions. It
// keeps a store of the objects of each. Package manifest derives the rights of an
// operator from them.
type Handles struct {
	// For is the handle of the reconciled objects, or nil.
	For kube.AnyHandle
	// Writes tells whether For can write, and Finalizes whether the controller adds or
	// removes finalizers.
	Writes, Finalizes bool
	// Owns are the handles of the objects' children, and Reads are all others.
	Owns, Reads []kube.AnyHandle
}

// Handles returns the handles that the controller uses.
func (c Controller[T]) Handles() Handles {
	h := Handles{Finalizes: c.Cleanup != nil || len(c.FormerFinalizers) > 0}
	if !isNil(c.For) {
		h.For = c.For
		_, h.Writes = writer(c.For)
	}
	for _, s := range c.sources() {
		switch {
		case s.owned:
			h.Owns = append(h.Owns, s.objects)
		case s.objects != nil:
			h.Reads = append(h.Reads, s.objects)
		}
	}
	h.Reads = append(h.Reads, c.Reads...)
	return h
}
