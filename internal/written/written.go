// Package written reports the writes that a context has made.
//
// Package kube calls [Tell] for each write that the server has confirmed. A controller
// adds a function with [With]. With it the controller recognizes its own writes when the
// watch reports them.
package written

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Write is a write that the server has confirmed.
type Write struct {
	Namespace, Name string
	UID             types.UID
	// ResourceVersion is the object's version after the write. If the write changed
	// nothing, it is the version before. It is empty if the server does not report one:
	// for a deleted object, and for objects that were deleted together.
	ResourceVersion string
	// Deleted is true if the object is deleted or its deletion has begun.
	Deleted bool
	// Unchanged is true if a store had the version before: the write has changed nothing.
	Unchanged bool
	// Renewed is true if the write has made a new generation of the object, as far as stores show.
	Renewed bool
	// Created is true if the write has created the object, as far as stores show. Server, Group
	// and Kind identify that object: the server's host, and the group and name of the kind.
	Created             bool
	Server, Group, Kind string
	// Undone are the fields, each with its managers, that others had changed and that an
	// Ensure put back, as the Ensures before it had done: see [Streak]. A Write with such
	// fields follows the Ensure's own and has no version.
	Undone []string
}

// Streak counts times that follow one another.
type Streak struct {
	Times      int
	last, told time.Time
}

const (
	// StreakGap is the longest gap in a streak.
	StreakGap = time.Hour
	// Fight is the number of times in a row from which a fight with others is told.
	Fight = 5
	// streakAgain is how often a streak that continues is told.
	streakAgain = 5 * time.Minute
)

// Next returns the streak with one more time, and whether to tell of it: from so many times in a row.
func (s Streak) Next(now time.Time, least int) (next Streak, tell bool) {
	if now.Sub(s.last) > StreakGap {
		s = Streak{told: s.told}
	}
	s.Times, s.last = s.Times+1, now
	if tell = s.Times >= least && (s.told.IsZero() || now.Sub(s.told) >= streakAgain); tell {
		s.told = now
	}
	return s, tell
}

// patience is after how many times a streak is told although little can be said of it.
const patience = 4 * Fight

// Wait returns s, a streak that is to be told, as one that is not told yet: more may be known of the
// next time. It reports false if there were many times already.
func (s Streak) Wait(before Streak) (waiting Streak, ok bool) {
	if s.Times >= patience {
		return s, false
	}
	s.told = before.told
	return s, true
}

// With returns a context that calls f for each confirmed write. The goroutine that makes
// a write calls f before the call that made the write returns. A second function is added
// to the first.
//
// A write through a subresource is reported as a write of the object, if the answer has
// the object's version. Dry runs are not reported. A DeleteAll is not reported if the
// server does not answer with the objects.
func With(ctx context.Context, f func(Write)) context.Context {
	if outer, ok := ctx.Value(key{}).(func(Write)); ok {
		inner := f
		f = func(w Write) { inner(w); outer(w) }
	}
	return context.WithValue(ctx, key{}, f)
}

type key struct{}

// Heard reports whether Tell would call a function.
func Heard(ctx context.Context) bool { return ctx.Value(key{}) != nil }

// Tell reports a write to the functions of the context.
func Tell(ctx context.Context, w Write) {
	if f, ok := ctx.Value(key{}).(func(Write)); ok {
		f(w)
	}
}
