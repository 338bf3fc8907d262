package kube

import (
	"context"
	"sync"
)

// builds are the indexes that are being built for a table that runs.
type builds struct {
	mu      sync.Mutex
	running map[indexer]chan struct{} // closed at the end
}

// build adds an index to the content of a table, unless it is there. It walks a
// snapshot, so that nobody waits for it but those who ask for the same index.
func (t *table) build(ctx context.Context, by indexer) error {
	for t.now().index(by) == nil {
		mine, done := t.builds.begin(by)
		if mine {
			var err error
			persist(func() { err = t.buildNow(ctx, by) })
			t.builds.end(by)
			if err != nil {
				return err
			}
			continue
		}
		select {
		case <-done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (t *table) buildNow(ctx context.Context, by indexer) error {
	d := t.now().draft()
	if d.next.index(by) != nil {
		return nil // another one has just ended
	}
	found := by.empty()
	for key, e := range d.next.entries.All() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		found = found.with(d.edit, key, by.values(key, e))
	}
	d.next.indexes = append(d.next.indexes, builtIndex{by, found})
	t.publish(d)
	return nil
}

// begin returns whether the build of an index is the caller's, and a channel that
// is closed at its end.
func (b *builds) begin(by indexer) (mine bool, done chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if done, ok := b.running[by]; ok {
		return false, done
	}
	if b.running == nil {
		b.running = make(map[indexer]chan struct{})
	}
	done = make(chan struct{})
	b.running[by] = done
	return true, done
}

func (b *builds) end(by indexer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.running[by])
	delete(b.running, by)
}
