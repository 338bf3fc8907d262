package kube

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pintle-go/pintle/internal/written"
)

// Others may change the fields of a field manager again and again, and each time Ensure puts
// them back. A controller reports such a fight. An Ensure takes part in it if it sends what was
// sent last to the same object, because the store shows that others have changed the object
// since, and the server then changes something.

// restores reports whether an apply has put back what others had changed. O is the answer to
// it: an apply that changes nothing leaves the version as it was.
func (by *ensuring) restores(o object) bool {
	return by.others.is != nil && by.others.UID() == o.GetUID() && by.others.ResourceVersion() != o.GetResourceVersion()
}

// streak returns how often in a row the last apply was to put something back.
func (e *ensured) streak() written.Streak {
	if e.undone == nil {
		return written.Streak{}
	}
	return *e.undone
}

// again returns the streak with this apply, and whether to tell of it. The fields are those that the
// apply is about to put back. If they are not known, later applies may know more: a watch may show the
// others' change before the answer to the apply that they undid arrives.
func (by *ensuring) again(now time.Time) (next written.Streak, tell bool, fields []string) {
	before := by.before.streak()
	if next, tell = before.Next(now, written.Fight); !tell {
		return next, false, nil
	}
	if fields, err := by.others.Fields(); err == nil && len(fields) > 0 {
		return next, true, fields
	}
	waiting, waits := next.Wait(before)
	return waiting, !waits, nil
}

const (
	// managersTime is how long an Ensure waits for the managers of the fields that it is about
	// to put back.
	managersTime = 5 * time.Second
	// fieldsTold is how many fields of an object are told at most.
	fieldsTold = 8
)

// undone returns the fields that an apply is about to put back, each with the managers that
// the server names, if it is time to tell of them.
func (by *ensuring) undone(ctx context.Context, now time.Time) []string {
	if by.others.is == nil || !written.Heard(ctx) {
		return nil
	}
	_, tell, all := by.again(now)
	switch {
	case !tell:
		return nil
	case len(all) == 0:
		return []string{"(the fields are not known)"}
	}
	paths := slices.DeleteFunc(slices.Clone(all), func(path string) bool {
		return by.before.fields == nil || !by.before.fields.Touch(path)
	})
	if len(paths) == 0 { // the server shows a field under another name
		paths = all
	}
	paths = paths[:min(len(paths), fieldsTold)]
	ctx, cancel := context.WithTimeout(ctx, managersTime)
	defer cancel()
	managers, err := by.others.Managers(ctx, paths...)
	if err != nil {
		managers = nil // the fields alone are worth telling
	}
	for i, path := range paths {
		var names []string
		for _, m := range managers[path] {
			names = append(names, m.String())
		}
		if len(names) > 0 {
			paths[i] += ", managed by " + strings.Join(names, " and ")
		}
	}
	return paths
}
