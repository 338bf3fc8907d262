package kube

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/internal/versions"
	"github.com/pintle-go/pintle/kube/internal/wire"
)

// Refresh asks the server for its present state. Later reads of the store are no older
// than that state: reads wait for the watch, or ask the server, as they do after own
// writes. Use Refresh in a program that takes over from another one: its watch may not
// have shown the last writes of that program yet. Refresh lists the metadata of all
// objects of the handle. The store must have been filled. Callers at about the same time
// share one list.
func (f *Informer) Refresh(ctx context.Context) error {
	if f.table.handle.err != nil {
		return f.err()
	}
	return f.table.refresh.do(ctx, f.table.relist)
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
// of a stale list, unless last is true: one that is older than the watch.
func (t *table) relistIn(
	ctx context.Context, from handle, namespace string, last bool,
) (stale bool, err error) {
	t.own.mu.Lock()
	made, heard := t.own.seq, t.own.lanes[namespace].heard
	t.own.mu.Unlock()
	before := make(map[Key]*entry)
	for key, e := range t.now().entries.All() {
		if namespace == "" || key.Namespace == namespace {
			before[key] = e
		}
	}
	news := make(map[Key]ownWrite)
	rv, _ := from.list(ctx, namespace, func(o object, failed error) bool {
		if err = failed; err != nil {
			return false
		}
		key := KeyOf(o)
		delete(before, key)
		if !t.shows(key, o) {
			news[key] = ownWrite{uid: o.GetUID(), rv: o.GetResourceVersion(), meta: wire.MetadataEntry(o)}
		}
		return true
	})
	if stale = versions.Older(rv, heard) && !last; stale || err != nil {
		return stale, err
	}
	t.own.mu.Lock()
	defer t.own.mu.Unlock()
	for key, w := range news {
		if was := t.own.pending[key]; was.seq <= made || versions.Reached(w.rv, was.rv) {
			t.answered(key, w)
		}
	}
	for key, e := range before {
		// The entry was there before the list, and the list does not have it.
		if t.entry(key) == e && !versions.Older(rv, e.ResourceVersion()) {
			if t.own.pending[key].seq <= made {
				t.own.drop(key)
			}
			t.own.hide(key, e.UID())
		}
	}
	return false, nil
}

// shows reports that the content alone shows a state of an object, or a later one.
func (t *table) shows(key Key, o metav1.Object) bool {
	t.own.mu.Lock()
	defer t.own.mu.Unlock()
	_, pending := t.own.pending[key]
	e := t.entry(key)
	return !pending && e != nil && e.Is(o.GetUID()) && versions.Reached(e.ResourceVersion(), o.GetResourceVersion())
}
