package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube"
)

// Reason is the kind of a [Cause]. It is like ReconcileReason of kube-rs.
type Reason string

const (
	// Listed means that the object was there when the controller started.
	Listed Reason = "Listed"
	// Changed means that an object has changed: the reconciled one or a watched one.
	Changed Reason = "Changed"
	// Retried means that the last reconcile failed.
	Retried Reason = "Retried"
	// Requested means that the last reconcile asked for this one, by [After].
	Requested Reason = "Requested"
	// Resynced means that the controller's Resync has passed, or that predicates and
	// sources were so far behind that all objects are reconciled.
	Resynced Reason = "Resynced"
	// Triggered means that a source without objects asked for the reconcile: a channel, a
	// timer or an HTTP hook.
	Triggered Reason = "Triggered"
)

// Cause is one of the reasons for which a reconcile runs. In kube-rs the reason of a
// ReconcileRequest is like it.
type Cause struct {
	Reason Reason
	// Change is the change of a Listed or Changed object since the reconciled object was
	// last reconciled. Several changes of one object are merged into one. Its Fields
	// tells which fields changed.
	Change kube.Change
	// Source names the source of a Triggered cause.
	Source string
	// Err is the failure before a Retried cause.
	Err error

	// due is the time at which a Requested or Resynced cause is due.
	due time.Time
	// of marks the state of the object that a Retried, Requested or Resynced cause is about.
	of mark
	// read: the change is in the store from which turns read their object.
	read bool
	// merged are the changes that are merged into Change, without the last one.
	merged []mergedChange
	// depth is that of a Retried, Requested or Resynced cause, see loop.go.
	depth int
}

// mergedChange is what a change has made of an object. It is zero if that is not known.
type mergedChange struct {
	version  string
	deleting bool
}

// forget forgets the merged changes that are writes.
func (c *Cause) forget(w *writes) {
	if w != nil {
		c.merged = slices.DeleteFunc(c.merged, func(m mergedChange) bool {
			return w.include(m.version, c.Change.UID(), m.deleting)
		})
	}
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

// Causes returns the causes of the reconcile whose context is ctx, or is ctx's ancestor.
// They are all requests since the object's last reconcile began, except that a change of the
// object itself is left out if that reconcile has read its result. If there are many causes,
// such as the deletion of a thousand children, Causes returns some of them; the log has
// their number. controller-runtime and kube-rs have no counterpart: they do not
// tell a reconcile why it runs.
func Causes(ctx context.Context) []Cause {
	r, ok := ctx.Value(runKey{}).(*run)
	if !ok {
		return nil
	}
	return slices.Clone(r.causes.list)
}

// causesKept bounds how many causes of one reconcile are kept.
const causesKept = 16

// causes are the merged causes of one reconcile.
type causes struct {
	list []Cause
	more int // causes that are not in the list
	rest int // one more than the least depth of those that count, see loop.go; 0: none does
	// timed is the reason of a cause that is due at a time. Most waiting keys have only
	// this one. It is put into the list when the key is handed out.
	timed      Reason
	due        time.Time
	of         mark
	timedDepth int
	held       time.Time // since when the key waits because of a hot loop, zero if it does not
}

// add merges a cause into the others.
func (cs *causes) add(c Cause) {
	if !c.due.IsZero() {
		cs.timed, cs.due, cs.of, cs.timedDepth = c.Reason, c.due, c.of, c.depth
		return
	}
	for i := range cs.list {
		was := &cs.list[i]
		switch {
		case !was.sameAs(c):
			continue
		case c.Change.Kind() != "":
			if len(was.merged) == causesKept {
				was.merged = []mergedChange{{}}
			}
			was.merged = append(was.merged, mergedChange{was.Change.ResourceVersion(), was.Change.Deleting()})
			was.Change, was.read = was.Change.Then(c.Change), was.read && c.read
			if c.Change.Type == kube.Deleted {
				was.Reason = Changed
			}
		case c.Err != nil:
			was.Err = c.Err
		}
		was.of, was.depth = c.of, min(was.depth, c.depth)
		return
	}
	if len(cs.list) == causesKept {
		if c.Reason == Changed {
			c.depth = noDepth // it is not known yet
		}
		cs.leaveOut(c.depth)
		return
	}
	cs.list = append(cs.list, c)
}

// drop removes the causes that have ended with an object that is gone: its changes, and
// the requests of its reconciles. It returns whether any cause is left.
func (cs *causes) drop(gone kube.Change) (left bool) {
	end := stateOf(gone)
	if cs.of.overWith(end) {
		cs.timed, cs.due, cs.of = "", time.Time{}, mark{}
	}
	itsOwn := Cause{Change: gone}
	cs.list = slices.DeleteFunc(cs.list, func(c Cause) bool {
		if c.Change.Kind() != "" {
			return itsOwn.sameAs(c) && stateOf(c.Change).overWith(end)
		}
		return c.Reason != Triggered && c.of.overWith(end)
	})
	return len(cs.list) > 0 || cs.timed != ""
}

// wait reports that some of the causes may be due later.
func (cs *causes) wait() bool {
	return cs.timed != "" ||
		slices.ContainsFunc(cs.list, func(c Cause) bool { return c.Reason == Retried || c.Reason == Resynced })
}

// areState reports that the only cause is a state of an object: that of a version. A state in
// the store of a source does not count: that store may have shown it later.
func (cs *causes) areState(uid types.UID, version string) bool {
	if len(cs.list) != 1 || cs.more > 0 || cs.timed != "" || version == "" {
		return false
	}
	c := &cs.list[0]
	return c.Reason == Changed && c.read && c.Change.Type != kube.Deleted &&
		c.Change.UID() == uid && c.Change.ResourceVersion() == version
}

// dueBy puts the timed cause into the list, unless its time is later than now and another
// cause came first.
func (cs *causes) dueBy(now time.Time) {
	if cs.timed == "" || len(cs.list) > 0 && cs.due.After(now) {
		return
	}
	timed := Cause{Reason: cs.timed, of: cs.of, depth: cs.timedDepth}
	cs.timed, cs.due, cs.of = "", time.Time{}, mark{}
	cs.add(timed)
}

// sameAs reports that two causes are the same, or are changes of one object.
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
