package controller

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/pintle-go/pintle/kube"
)

// HotLoopError means that an object is reconciled again and again because of its own
// reconcile. [Controller.Failed] gets the error, and so do the log and the events.
type HotLoopError struct {
	// fields are the fields that keep changing in the loop, if changes cause it.
	fields []loopField
	// causes are the causes of the last reconcile, in a few words.
	causes string
}

// loopField is a field that changes in a hot loop.
type loopField struct {
	Kind  string
	Key   kube.Key
	Field string // "(added)" or "(deleted)" if the whole object is
	// Managers own the field. The manager that wrote last comes first. The list is empty
	// if the server does not return the managers.
	Managers []kube.Manager
	// Undone is true if somebody else changes the value that the reconcile writes.
	Undone bool
}

func (e *HotLoopError) Error() string {
	return "the object is reconciled in a loop, from now on at most once a second: " + cmp.Or(e.flips(), e.causes)
}

// flips returns the fields in words, or an empty text if there are none.
func (e *HotLoopError) flips() string {
	all := make([]string, 0, len(e.fields))
	for _, f := range e.fields {
		all = append(all, f.String())
	}
	return strings.Join(all, "; ")
}

// String returns a text such as "Deployment default/web spec.replicas, managed by
// horizontal-pod-autoscaler (Update)".
func (f loopField) String() string {
	s := fieldOf{f.Kind, f.Key, f.Field}.String()
	if f.Undone {
		s += ", which another writer changes back"
	}
	var names []string
	for _, m := range f.Managers {
		names = append(names, m.String())
	}
	if len(names) > 0 {
		s += ", managed by " + strings.Join(names, " and ")
	}
	return s
}

// lookAt asks the server for the managers of the fields in a hot loop. It does so before
// the reconcile, because the reconcile's writes would take the fields over.
func (e *engine[T]) lookAt(ctx context.Context, a *attempt[T]) *HotLoopError {
	found := &HotLoopError{causes: a.hot.causes}
	ctx, cancel := context.WithTimeoutCause(ctx, reportTime, errTimeout)
	defer cancel()
	asked := make(map[fieldOf]map[string][]kube.Manager) // by object, without a field
	for _, at := range a.hot.fields {
		f := loopField{Kind: at.kind, Key: at.key, Field: at.field, Undone: a.hot.undone[at]}
		object := fieldOf{kind: at.kind, key: at.key}
		if _, ok := asked[object]; !ok && len(asked) < objectsAsked {
			asked[object] = e.managers(ctx, a, object)
		}
		f.Managers = asked[object][at.field]
		found.fields = append(found.fields, f)
	}
	return found
}

// logHot logs and counts a hot loop.
func (e *engine[T]) logHot(a *attempt[T]) {
	e.counts.HotLoop()
	a.run.logger().WarnContext(a.trace, "an object is reconciled in a loop, from now on at most once a second",
		"flips", a.found.flips(), "causes", a.found.causes)
}

// objectsAsked is the number of objects at most for which the server is asked for
// managers.
const objectsAsked = 4

// managers asks the server for the managers of the fields of an object that change in a
// loop. If the server does not answer, the report has no managers.
func (e *engine[T]) managers(ctx context.Context, a *attempt[T], object fieldOf) map[string][]kube.Manager {
	var paths []string
	var last kube.Change
	undone := false
	for _, at := range a.hot.fields {
		if at.kind == object.kind && at.key == object.key && at.field != "" && at.field[0] != '(' {
			paths, last = append(paths, at.field), a.hot.last[at]
			undone = undone || a.hot.undone[at]
		}
	}
	if len(paths) == 0 {
		return nil
	}
	own, _ := e.client().FieldManager() // writes return its error
	for asked := time.Now(); ; {
		found, err := last.Managers(ctx, paths...)
		if err != nil {
			a.run.logger().Debug("cannot read the managers of the fields of a hot loop", "error", err)
			return found
		}
		// The reconcile's own value may be in place at the moment. A manager that undoes it
		// does so soon.
		if !undone || hasOther(found, own) || time.Since(asked) >= othersTime {
			return found
		}
		select {
		case <-ctx.Done():
			return found
		case <-time.After(othersTime / 12):
		}
	}
}

// othersTime is how long a report waits for a field to have another manager.
const othersTime = 3 * time.Second

// hasOther reports that some field has another manager than own.
func hasOther(managers map[string][]kube.Manager, own string) bool {
	for _, of := range managers {
		for _, m := range of {
			if m.Name != own {
				return true
			}
		}
	}
	return false
}
