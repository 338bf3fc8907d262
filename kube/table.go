package kube

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
)

// table is the content of stores: what all Stores of one kind, type, namespaces
// and selector share.
type table struct {
	handle handle
	cancel context.CancelFunc
	done   chan struct{}
	synced chan struct{} // closed after the first sync of all namespaces

	mu        sync.RWMutex
	entries   map[Key]*entry
	size      int64
	lastEvent time.Time
	unsynced  int // namespaces whose first sync is missing
	troubles  laneTroubles
	own       ownWrites
	ensured   map[Key]ensured
	indexes   []indexer
	owners    *ownerIndex
	watchers  map[*subscription]struct{}
}

// wait waits for the first sync.
func (t *table) wait(ctx context.Context) error {
	if t.handle.err != nil {
		return t.handle.err
	}
	select {
	case <-t.done:
		return ErrStopped
	default:
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

func (t *table) entry(key Key) *entry {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.entries[key]
}

func (t *table) entriesOf(keys []Key) map[Key]*entry {
	t.mu.RLock()
	defer t.mu.RUnlock()
	entries := make(map[Key]*entry, len(keys))
	for _, key := range keys {
		entries[key] = t.entries[key]
	}
	return entries
}

func (t *table) all() []keyed {
	list := make([]keyed, 0, len(t.entries))
	for key, e := range t.entries {
		list = append(list, keyed{key, e})
	}
	return list
}

func (t *table) labeled(sel labels.Selector) (list []keyed) {
	for key, e := range t.entries {
		if sel.Matches(e.labels()) {
			list = append(list, keyed{key, e})
		}
	}
	return list
}

func (t *table) pick(keys map[Key]struct{}) []keyed {
	list := make([]keyed, 0, len(keys))
	for key := range keys {
		list = append(list, keyed{key, t.entries[key]})
	}
	return list
}

func (t *table) stats() StoreStats {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return StoreStats{len(t.entries), t.size, t.lastEvent}
}

// set puts an entry in the place of what is there, or removes it if e is nil,
// and tells indexes and watchers. It is called with mu held.
func (t *table) set(key Key, e *entry) {
	old := t.entries[key]
	if old == e {
		return
	}
	if old != nil {
		t.size -= int64(len(old.data))
	}
	if e != nil {
		t.size += int64(len(e.data))
		t.entries[key] = e
	} else {
		delete(t.entries, key)
		delete(t.ensured, key)
	}
	t.tell(key, old, e)
}

// tell tells indexes and watchers that an entry has come, changed or gone. It
// is called with mu held, when it has.
func (t *table) tell(key Key, old, e *entry) {
	for _, x := range t.indexes {
		x.update(key, e)
	}
	for w := range t.watchers {
		w.notify(key, old)
	}
}
