package controller

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube"
)

// history is what is remembered of an object between its reconciles. An object
// that is left alone has none as a rule.
type history struct {
	// failures counts those in a row; none is tried before retryAt because of
	// what the reconcile itself has written.
	failures int
	retryAt  time.Time
	// blank is the uid of the object if its status was written and is all zero,
	// which cannot be told from none.
	blank types.UID
	last  time.Time // the end of the last reconcile
	// Both are nil after reconciles that have written nothing, or when the last
	// one was so long ago that all changes it has made are known.
	writes *writes
	loop   *loop
}

// fadeAfter is how long after a reconcile its writes are forgotten.
const fadeAfter = hotAgain

// fade forgets what no longer matters. It returns whether anything is left.
func (h *history) fade(now time.Time) bool {
	if now.Sub(h.last) >= fadeAfter {
		h.writes, h.loop = nil, nil
	}
	return h.failures > 0 || h.blank != "" || h.writes != nil
}

// writes are what a reconcile has written, and the last of those before it, whose
// changes may be told late where watches differ. They are noted by whatever
// goroutines it uses.
type writes struct {
	mu       sync.Mutex
	versions []string    // resource versions, which no two writes share
	deleted  []types.UID // of objects that it has deleted
}

// writesKept is how many writes of earlier reconciles are remembered.
const writesKept = 16

func (w *writes) note(x kube.Written) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if x.Deleted && x.UID != "" {
		w.deleted = append(w.deleted, x.UID)
	}
	if x.ResourceVersion != "" {
		w.versions = append(w.versions, x.ResourceVersion)
	}
}

func (w *writes) any() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.versions)+len(w.deleted) > 0
}

// follow adds the last writes of the reconcile before, which has ended.
func (w *writes) follow(before *writes) {
	if before == nil {
		return
	}
	before.mu.Lock()
	versions, deleted := before.versions, before.deleted
	before.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.versions = join(versions, w.versions)
	w.deleted = join(deleted, w.deleted)
}

// join returns the last of the earlier and all of the later.
func join[E any](earlier, later []E) []E {
	return slices.Concat(earlier[max(0, len(earlier)-writesKept):], later)
}

// made reports that a change is one of the writes. Somebody else's change of the
// same object that was followed by one of the writes before anybody looked cannot
// be told from it.
func (w *writes) made(c kube.Change) bool {
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return c.Deleting() && slices.Contains(w.deleted, c.UID()) || slices.Contains(w.versions, c.ResourceVersion())
}

const (
	// hotAfter is how many reconciles in a row, each caused by nothing but what
	// the one before has written, are a hot loop. Some objects are rightly brought
	// where they shall be in a few such steps.
	hotAfter = 10
	// hotSlow is how long a reconcile in a hot loop is put off.
	hotSlow = time.Second
	// hotAgain is how often a hot loop is said that does not end.
	hotAgain = 5 * time.Minute
)

// loop tells hot loops.
type loop struct {
	runs   int                 // reconciles in a row that their own writes have caused
	fields map[string]struct{} // what those writes have changed
	said   time.Time
}

// judge tells which causes of a key's next reconcile are its own writes. It
// returns until when the reconcile must be put off, zero if it need not be, and
// what there is to say about a hot loop.
func (h *history) judge(cs *causes, now time.Time) (until time.Time, report string) {
	for i := range cs.list {
		c := &cs.list[i]
		c.own = c.Reason == Changed && h.writes.made(c.Change)
	}
	if h.failures > 0 && now.Before(h.retryAt) && cs.onlyOwn(true) {
		return h.retryAt, "" // a failure that is written into a status must not be its own reason
	}
	if !cs.onlyOwn(false) {
		if h.loop != nil {
			h.loop.runs, h.loop.fields = 0, nil
		}
		return until, ""
	}
	if h.loop == nil {
		h.loop = new(loop)
	}
	return h.loop.turn(cs, h.last, now)
}

// turn counts a reconcile that is caused by what the last one, which ended at a
// time, has written.
func (l *loop) turn(cs *causes, last, now time.Time) (until time.Time, report string) {
	if l.runs >= hotAfter && now.Before(last.Add(hotSlow)) {
		return last.Add(hotSlow), ""
	}
	l.runs++
	if l.runs >= hotAfter/2 && l.runs <= hotAfter {
		l.note(cs)
	}
	if l.runs >= hotAfter && (l.said.IsZero() || now.Sub(l.said) >= hotAgain) {
		l.note(cs)
		l.said = now
		report = strings.Join(slices.Sorted(maps.Keys(l.fields)), ", ")
	}
	return until, report
}

// note notes what fields the causes have changed.
func (l *loop) note(cs *causes) {
	if l.fields == nil {
		l.fields = make(map[string]struct{})
	}
	for _, c := range cs.list {
		what := cmp.Or(c.Change.Kind(), "object") + " " + c.Change.Key.String()
		fields, err := c.Change.Fields()
		switch {
		case err != nil:
			l.fields[what] = struct{}{}
		case c.Change.Type != kube.Modified:
			l.fields[fmt.Sprintf("%s (%s)", what, strings.ToLower(string(c.Change.Type)))] = struct{}{}
		}
		for _, f := range fields {
			l.fields[what+" "+f] = struct{}{}
		}
	}
}
