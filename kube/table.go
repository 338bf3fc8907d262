package kube

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/labels"
)

// table is the content of stores. All Stores of one kind, type, namespaces and selector
// share one table.
//
// The content is a snapshot, which is replaced and never changed. The reflector of each
// namespace makes the next snapshot beside the present one and publishes it by one
// comparison and swap. So nothing ever waits for a listing, an index or a loop over all
// objects.
type table struct {
	handle handle
	cancel context.CancelFunc
	done   chan struct{}
	// left is set when the last user of the table has left. The table does not learn of
	// writes after that, so it must not be read.
	left      atomic.Bool
	synced    chan struct{} // closed after the first sync of all namespaces
	content   atomic.Pointer[snapshot]
	lastHeard atomic.Pointer[time.Time]
	followers followers
	builds    builds
	own       *ownWrites
	ensured   ensuredParts
	refresh   refreshes

	mu       sync.RWMutex
	unsynced int // the number of namespaces whose first sync is missing
	troubles laneTroubles
}

// newTable returns a table without content and without a watch.
func newTable(h handle, indexes []indexer) *table {
	t := &table{handle: h, done: make(chan struct{}), synced: make(chan struct{})}
	t.own, t.ensured.selector, t.ensured.entry = newOwnWrites(h, t.entry), h.selector, t.entry
	t.unsynced = max(1, len(h.namespaces))
	first := new(snapshot)
	for _, x := range indexes {
		first.indexes = append(first.indexes, builtIndex{x, x.empty()})
	}
	t.content.Store(first)
	return t
}

// wait waits for the first sync.
func (t *table) wait(ctx context.Context) error {
	if t.handle.err != nil {
		return t.handle.err
	}
	switch {
	case t.left.Load():
		return ErrStopped
	case t.filled():
		return nil // even if ctx has ended
	case underReflector():
		return t.waitsForItself()
	}
	var end error
	select {
	case <-t.synced:
		return nil
	case <-ctx.Done():
		end = context.Cause(ctx)
	case <-t.done:
		end = ErrStopped
	}
	if trouble := t.troubles.longest(); trouble != nil {
		return fmt.Errorf("%w before the first sync: %w", end, trouble)
	}
	return fmt.Errorf("%w before the first sync", end)
}

// filled reports that the first sync is complete.
func (t *table) filled() bool {
	select {
	case <-t.synced:
		return true
	default:
		return false
	}
}

// now returns the present content.
func (t *table) now() *snapshot { return t.content.Load() }

func (t *table) entry(key Key) *entry { return t.now().entry(key) }

// pick chooses entries of a snapshot.
type pick func(*snapshot) iter.Seq2[Key, *entry]

func all(s *snapshot) iter.Seq2[Key, *entry] { return s.entries.All() }

func labeled(sel labels.Selector) pick {
	return func(s *snapshot) iter.Seq2[Key, *entry] {
		return func(yield func(Key, *entry) bool) {
			for key, e := range s.entries.All() {
				if sel.Matches(e.Labels()) && !yield(key, e) {
					return
				}
			}
		}
	}
}

func (t *table) stats() StoreStats {
	now := t.now()
	stats := StoreStats{Objects: now.entries.Len(), Bytes: now.size}
	if at := t.lastHeard.Load(); at != nil {
		stats.LastHeard = *at
	}
	return stats
}

// heard notes that the server has sent something.
func (t *table) heard() {
	now := time.Now()
	t.lastHeard.Store(&now)
}

// publish makes a draft the content. If another draft was published first, this draft
// takes up the changes of the other one, and publish tries again.
func (t *table) publish(d *draft) {
	for {
		t.leaving(d)
		if t.followers.publish(t, d.base, d.next) {
			return
		}
		d.rebase(t.now())
	}
}

// leaving prepares for the publication of a draft that lacks some objects. If this
// process has made such an object, every loop is shown the object before its end, even if
// the loop was behind: somebody relies on that.
func (t *table) leaving(d *draft) {
	if len(d.removed) == 0 {
		return
	}
	t.followers.keep(d.removed, d.next.number)
	first := len(d.vanished)
	for _, k := range d.removed {
		uid := k.entry.UID()
		if t.ensured.gone(k.key, uid) || t.own.wrote(k.key, uid) {
			d.vanished = append(d.vanished, k)
		}
	}
	for _, k := range d.vanished[first:] {
		t.followers.vanished(k.key, k.entry)
	}
}

// vanished makes every loop over changes that has not been shown an object yield the
// object as Added and Deleted. It is called before the object leaves the content, if the
// object ever was in the content. Of several such objects under one name, the last one
// counts.
func (t *table) vanished(key Key, e *entry) {
	t.followers.vanished(key, e)
	t.followers.wake()
}
