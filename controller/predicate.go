package controller

import (
	"slices"
	"strings"

	"github.com/pintle-go/pintle/kube"
)

// Predicate decides whether a change makes a controller reconcile. A new object
// under an old name is a new object: filters see it as [kube.Added]. They never
// see the end of an object, nor the beginning of the deletion of one that the
// controller has to clean up after. They must be quick: the changes of a kind
// wait for one another. A change that one panics at passes, and the log says so.
//
// NewGeneration of a [kube.Change] is one, which leaves out changes of status and
// metadata of kinds that count generations:
//
//	Predicate: kube.Change.NewGeneration
type Predicate func(kube.Change) bool

// FieldsChanged is a filter for changes of some fields, "spec" or
// "metadata.labels[app]", and what is below them. It decodes the states before and
// after, which takes some 100 µs for a Pod. Objects that are added pass.
func FieldsChanged(fields ...string) Predicate {
	return func(c kube.Change) bool {
		if c.Type != kube.Modified {
			return true
		}
		changed, err := c.Fields()
		if err != nil {
			return true // the reconcile will say what cannot be decoded
		}
		for _, path := range changed {
			for _, field := range fields {
				if within(path, field) || within(field, path) {
					return true
				}
			}
		}
		return false
	}
}

// within reports that a path is field or below it.
func within(path, field string) bool {
	rest, ok := strings.CutPrefix(path, field)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// Where is a filter that looks at the object, before and after the change. Before
// is nil for an object that was added or deleted. T must be the type of the handle
// that the filter is for; an object that does not decode passes.
func Where[T any](pass func(before, after *T) bool) Predicate {
	return func(c kube.Change) bool {
		was, is, err := kube.Decode[T](c)
		if c.Type != kube.Modified {
			was = nil
		}
		return err != nil || pass(was, is)
	}
}

// passes reports that a change passes all filters. It does if one of them panics:
// a reconcile too many does no harm.
func passes(filters []Predicate, c kube.Change) (pass bool, err error) {
	if !slices.ContainsFunc(filters, func(f Predicate) bool { return f != nil }) {
		return true, nil
	}
	err = protect(func() error {
		pass = !slices.ContainsFunc(filters, func(f Predicate) bool { return f != nil && !f(c) })
		return nil
	})
	return pass || err != nil, err
}
