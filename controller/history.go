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

// history is what is remembered of an object between its reconciles.
type history struct {
	// failures counts those in a row; none is tried before retryAt because of
	// what the reconcile itself has written.
	failures int
	retryAt  time.Time
	writes   writes // of the last reconcile
	// blank is the uid of the object if its status was written and is all zero,
	// which cannot be told from none.
	blank types.UID
	loop  loop
}

// writes are what a reconcile has written. They are noted by whatever goroutines
// it uses.
type writes struct {
	mu       *sync.Mutex
	versions []string    // resource versions, which no two writes share
	deleted  []types.UID // of objects that it has deleted
}

func newWrites() writes { return writes{mu: new(sync.Mutex)} }

func (w *writes) note(x kube.Written) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if x.Deleted {
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

// made reports that a change is one of the writes.
func (w *writes) made(c kube.Change) bool {
	if w.mu == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.Type == kube.Deleted {
		return slices.Contains(w.deleted, c.UID())
	}
	return slices.Contains(w.versions, c.ResourceVersion())
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
	last   time.Time // the end of the last reconcile
}

// judge tells which causes of a key's next reconcile are its own writes. It
// returns until when the reconcile must be put off, zero if it need not be, and
// what there is to say about a hot loop.
func (h *history) judge(cs *causes, now time.Time) (until time.Time, report string) {
	for i := range cs.list {
		c := &cs.list[i]
		c.own = c.Reason == Changed && h.writes.made(c.Change)
	}
	switch {
	case h.failures > 0 && now.Before(h.retryAt) && cs.onlyOwn(true):
		return h.retryAt, "" // a failure that is written into a status must not be its own reason
	case !cs.onlyOwn(false):
		h.loop.runs, h.loop.fields = 0, nil
		return until, ""
	case h.loop.runs >= hotAfter && now.Before(h.loop.last.Add(hotSlow)):
		return h.loop.last.Add(hotSlow), ""
	}
	h.loop.runs++
	if h.loop.runs >= hotAfter/2 && h.loop.runs <= hotAfter {
		h.loop.note(cs)
	}
	if h.loop.runs >= hotAfter && now.Sub(h.loop.said) >= hotAgain {
		h.loop.note(cs)
		h.loop.said = now
		report = strings.Join(slices.Sorted(maps.Keys(h.loop.fields)), ", ")
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
