package controller

import (
	"slices"
	"strings"

	"github.com/pintle-go/pintle/kube"
)

// Predicate decides whether a change makes a controller reconcile. In controller-runtime
// this is predicate.Predicate. A recreated object is a new object: predicates see it as
// [kube.Added]. They never see the end of an object. If the controller has to clean up
// after an object, they never see the beginning of its deletion. They see every step
// between two states: a change and its reversal are two changes, even if the predicate is
// slow. They should be quick: the changes of a kind wait for one another, and a predicate
// that is a thousand changes behind makes all objects be reconciled. If a predicate
// panics, the change passes and the panic is logged.
//
// NewGeneration of a [kube.Change] is a predicate. It leaves out changes of status and
// metadata, for kinds that count generations. It is like controller-runtime's
// GenerationChangedPredicate:
//
//	Predicate: kube.Change.NewGeneration
type Predicate func(kube.Change) bool

// FieldsChanged is a predicate for changes of some fields and of everything below them. A
// field is written as "spec" or "metadata.labels[app]". The predicate decodes the states
// before and after, which takes some 100 µs for a Pod. Objects that are added pass. For
// labels and annotations its counterparts are LabelChangedPredicate and
// AnnotationChangedPredicate of controller-runtime, and predicates::labels and
// predicates::annotations of kube-rs.
func FieldsChanged(fields ...string) Predicate {
	return func(c kube.Change) bool {
		if c.Type != kube.Modified {
			return true
		}
		changed, err := c.Fields()
		if err != nil {
			return true // the reconcile will report the object that does not decode
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

// within reports that a path is field or lies below it.
func within(path, field string) bool {
	rest, ok := strings.CutPrefix(path, field)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// Where is a predicate that looks at the object before and after the change. Before is
// nil for an object that was added or deleted. T must be the type of the handle that the
// predicate is for. An object that does not decode passes. Its counterpart is the
// UpdateFunc of controller-runtime's predicate.Funcs.
func Where[T any](pass func(before, after *T) bool) Predicate {
	return func(c kube.Change) bool {
		was, is, err := kube.Decode[T](c)
		if c.Type != kube.Modified {
			was = nil
		}
		return err != nil || pass(was, is)
	}
}

// passes reports that a change passes all predicates. If one of them panics, the change
// passes: a superfluous reconcile does no harm.
func passes(predicates []Predicate, c kube.Change) (pass bool, err error) {
	if !slices.ContainsFunc(predicates, func(f Predicate) bool { return f != nil }) {
		return true, nil
	}
	err = protect(func() error {
		pass = !slices.ContainsFunc(predicates, func(f Predicate) bool { return f != nil && !f(c) })
		return nil
	})
	return pass || err != nil, err
}
