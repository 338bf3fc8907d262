package kube

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/pintle-go/pintle/kube/internal/own"
)

// table is the content of stores. All Stores of one kind, type, namespaces and selector
// share one table.
//
// The content is a snapshot, which is replaced and never changed. Readers take no lock. One
// writer at a time makes the next snapshot: for an event of a reflector, for the server's
// answer to a write of this process, or for the answer to a question. See writer.go.
type table struct {
	handle *handle
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
	ensured   ensuredParts
	refresh   refreshes
	lanes     map[string]int // by the namespaces that have a watch of their own
	writing   sync.Mutex     // one writer at a time replaces the content
	bell      bell           // rings when there is a new snapshot
	asks      asks

	mu       sync.RWMutex
	unsynced int // the number of namespaces whose first sync is missing
	troubles laneTroubles
}

// newTable returns a table without content and without a watch.
func newTable(h *handle, indexes []indexer) *table {
	t := &table{handle: h, done: make(chan struct{}), synced: make(chan struct{})}
	t.ensured.selector, t.ensured.entry = h.selector, t.entry
	t.unsynced = max(1, len(h.namespaces))
	t.lanes = make(map[string]int)
	for ns := range h.eachNamespace() {
		t.lanes[ns] = len(t.lanes)
	}
	laneOf := func(key Key) int { return t.laneOf(key.Namespace) }
	selects := h.selector.label != "" || h.selector.field != ""
	first := &snapshot{own: own.New(len(t.lanes), laneOf, selects)}
	for _, x := range indexes {
		first.indexes = append(first.indexes, builtIndex{x, x.empty()})
	}
	t.content.Store(first)
	return t
}

// laneOf returns the number of the watch that shows a namespace.
func (t *table) laneOf(namespace string) int {
	if lane, ok := t.lanes[namespace]; ok {
		return lane
	}
	return t.lanes[""]
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
