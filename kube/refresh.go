package kube

import (
	"context"
	"sync"
	"time"

	"github.com/pintle-go/pintle/kube/internal/own"
	"github.com/pintle-go/pintle/kube/internal/wire"
)

// Refresh asks the server for its present state. Later reads of the store are no older
// than that state: reads wait for the watch, or ask the server, as they do after own
// writes. Use Refresh in a program that takes over from another one: its watch may not
// have shown the last writes of that program yet. Refresh lists the metadata of all
// objects of the handle. The store must have been filled. Callers at about the same time
// share one list. If the store has stopped, the error wraps [ErrStopped].
func (f *Informer) Refresh(ctx context.Context) error {
	if f.table.handle.err != nil {
		return f.err()
	}
	if f.table.left.Load() {
		return &Error{Verb: "refresh", Kind: f.table.handle.kindName(), Err: ErrStopped}
	}
	return f.table.refreshed(ctx)
}

// refreshed does the work of Refresh.
func (t *table) refreshed(ctx context.Context) error {
	if underReflector() { // a list may wait for this caller
		return t.waitsForItself()
	}
	return t.refresh.do(ctx, func(ctx context.Context) (err error) {
		asReflector(func() { err = t.relist(ctx) })
		return err
	})
}

// refreshGather is how long a list of Refresh waits for other callers to join.
const refreshGather = 20 * time.Millisecond

// refreshes holds the lists of Refresh. A list that has begun may miss writes from before
// a later call, so that call needs another list.
type refreshes struct {
	mu   sync.Mutex
	next *refreshing // the list that has not begun
}

type refreshing struct {
	done chan struct{}
	err  error
	left bool // the caller that made the list has gone
}

func (r *refreshes) do(ctx context.Context, list func(context.Context) error) error {
	for {
		r.mu.Lock()
		next := r.next
		first := next == nil
		if first {
			next = &refreshing{done: make(chan struct{})}
			r.next = next
		}
		r.mu.Unlock()
		if first {
			return r.make(ctx, next, list)
		}
		select {
		case <-next.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if !next.left {
			return next.err
		}
	}
}

func (r *refreshes) make(ctx context.Context, next *refreshing, list func(context.Context) error) error {
	defer close(next.done)
	next.left = true // unless the list returns
	err := sleep(ctx, refreshGather)
	r.mu.Lock()
	r.next = nil
	r.mu.Unlock()
	if err == nil {
		err = list(ctx)
	}
	next.err, next.left = err, ctx.Err() != nil
	return err
}

// relist does the work of Refresh for a table.
func (t *table) relist(ctx context.Context) error {
	h := t.handle.metadata()
	for ns := range h.eachNamespace() {
		for try := 1; ; try++ {
			stale, err := t.relistIn(ctx, h, ns, try == staleTries)
			if err == nil && stale {
				err = sleep(ctx, spread(minDelay<<try))
			}
			if err != nil {
				return err
			}
			if !stale {
				break
			}
		}
	}
	return nil
}

// relistIn does the work of Refresh for one of the table's namespaces. It takes no notice
// of a stale list, unless last is true.
func (t *table) relistIn(
	ctx context.Context, from *handle, namespace string, last bool,
) (stale bool, err error) {
	before := t.now()
	listed := make(map[Key]*entry)
	rv, _ := from.list(ctx, namespace, func(o object, failed error) bool {
		if err = failed; err == nil {
			listed[KeyOf(o)] = wire.MetadataEntry(o)
		}
		return err == nil
	})
	lane := t.lanes[namespace]
	l := own.List{Lane: lane, Version: rv, Began: before.own.Began(), Floor: before.own.Lane(lane).Floor}
	if err != nil {
		return false, err
	}
	if stale = l.Stale() && !last; stale {
		return true, nil
	}
	t.write(func(d *draft) {
		list := func(key Key, e *entry) {
			var v own.Verdict
			d.next.own, v = d.next.own.Listed(l, key, d.next.object(key), objectOf(e), e)
			d.rule(key, v)
		}
		for key, e := range listed {
			list(key, e)
		}
		for key := range before.entries.All() {
			if _, ok := listed[key]; !ok && (namespace == "" || key.Namespace == namespace) {
				list(key, nil)
			}
		}
		for _, key := range d.next.own.Marked(l.Lane) {
			if _, ok := listed[key]; !ok {
				list(key, nil)
			}
		}
		d.next.own = d.next.own.ListEnds(l, d.next.object, d.rule)
	})
	return false, nil
}
