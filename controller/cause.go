package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pintle-go/pintle/kube"
)

// Reason is the kind of a [Cause].
type Reason string

const (
	// Listed says that the object was there when the controller started.
	Listed Reason = "Listed"
	// Changed says that an object has changed, the reconciled one or one that is watched.
	Changed Reason = "Changed"
	// Retried says that the last reconcile failed.
	Retried Reason = "Retried"
	// Requested says that the last reconcile asked for it, by [After].
	Requested Reason = "Requested"
	// Resynced says that the controller's Resync has passed.
	Resynced Reason = "Resynced"
	// Triggered says that a source that is no object asked for it: a channel, a timer, an
	// HTTP hook.
	Triggered Reason = "Triggered"
)

// Cause is one of the reasons for which a reconcile runs.
type Cause struct {
	Reason Reason
	// Change is what a Listed or Changed object went through since the object was
	// last reconciled: several changes of one object are added up. Its Fields
	// tells which fields changed.
	Change kube.Change
	// Source names the source of a Triggered.
	Source string
	// Err is the failure before a Retried.
	Err error

	// due is when a Requested or Resynced is.
	due time.Time
}

// String returns the cause in a few words: "Deployment default/web modified".
func (c Cause) String() string {
	switch c.Reason {
	case Listed, Changed:
		return fmt.Sprintf("%s %s %s", c.Change.Kind(), c.Change.Key, verbOf(c))
	case Triggered:
		return "triggered by " + c.Source
	case Retried:
		return "retry"
	case Requested:
		return "requested"
	case Resynced:
		return "resync"
	}
	return string(c.Reason)
}

func verbOf(c Cause) string {
	if c.Reason == Listed {
		return "listed"
	}
	return strings.ToLower(string(c.Change.Type))
}

// Causes returns why the reconcile runs whose context ctx is, or is derived
// from: all that was asked for since the object's last reconcile began. Of causes
// that are many, such as the deletion of a thousand children, it returns some; see
// the log for their number.
func Causes(ctx context.Context) []Cause {
	r, ok := ctx.Value(runKey{}).(*run)
	if !ok {
		return nil
	}
	return slices.Clone(r.causes.list)
}

// causesKept bounds the causes of one reconcile that are kept.
const causesKept = 16

// causes are the merged causes of one reconcile.
type causes struct {
	list []Cause
	more int // causes that are not in the list
	// timed is the reason of one that is due at a time, which is all that most
	// keys wait for: it is in the list when it is handed out.
	timed Reason
	due   time.Time
}

// add merges a cause into the others.
func (cs *causes) add(c Cause) {
	if !c.due.IsZero() {
		cs.timed, cs.due = c.Reason, c.due
		return
	}
	for i := range cs.list {
		was := &cs.list[i]
		switch {
		case !was.sameAs(c):
			continue
		case c.Change.Kind() != "":
			was.Change = was.Change.Then(c.Change)
			if c.Change.Type == kube.Deleted {
				was.Reason = Changed
			}
		case c.Err != nil:
			was.Err = c.Err
		}
		return
	}
	if len(cs.list) == causesKept {
		cs.more++
		return
	}
	cs.list = append(cs.list, c)
}

// drop removes what has ended with an object that is gone: its changes, and what its
// reconciles have asked for. It returns whether anything is left.
func (cs *causes) drop(gone kube.Change) (left bool) {
	cs.timed, cs.due = "", time.Time{}
	itsOwn := Cause{Change: gone}
	cs.list = slices.DeleteFunc(cs.list, func(c Cause) bool {
		return c.Reason != Triggered && (c.Change.Kind() == "" || itsOwn.sameAs(c))
	})
	return len(cs.list) > 0
}

// dueBy puts what was asked for a time into the list, unless that time is later
// and something else came first.
func (cs *causes) dueBy(now time.Time) {
	if cs.timed == "" || len(cs.list) > 0 && cs.due.After(now) {
		return
	}
	timed := cs.timed
	cs.timed, cs.due = "", time.Time{}
	cs.add(Cause{Reason: timed})
}

// sameAs reports that two causes are one, or changes of one object.
func (c *Cause) sameAs(d Cause) bool {
	if kind := c.Change.Kind(); kind != "" {
		return kind == d.Change.Kind() && c.Change.Key == d.Change.Key && c.Change.UID() == d.Change.UID()
	}
	return c.Reason == d.Reason && c.Source == d.Source && d.Change.Kind() == ""
}

// String returns the causes for the log.
func (cs *causes) String() string {
	var b strings.Builder
	for i, c := range cs.list {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(c.String())
	}
	if cs.more > 0 {
		fmt.Fprintf(&b, ", and %d more", cs.more)
	}
	return b.String()
}
