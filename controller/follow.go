package controller

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/pintle-go/pintle/kube"
)

// follow asks for the objects that change, until ctx ends. It closes synced when it has
// asked for all objects that were there at the start.
func (e *engine[T]) follow(ctx context.Context, d *dispatcher, synced chan<- struct{}) {
	r := request{priority: low, cause: Cause{Reason: Listed}}
	var options []kube.ChangesOption
	if e.Predicate != nil || e.Gone != nil {
		options = append(options, kube.EveryStep) // a merged change may hide a state that a reconcile reads
	}
	var all time.Time
	for c := range e.objects.Changes(ctx, options...) {
		switch {
		case c.Type == kube.Synced && r.cause.Reason == Changed:
			e.askForAll(ctx, d, e.objects, &all)
			continue
		case c.Type == kube.Synced:
			r = request{priority: live, cause: Cause{Reason: Changed, read: true}}
			close(synced)
			continue
		case c.Type == kube.Deleted:
			d.ask(request{
				key: c.Key, priority: live, cause: Cause{Reason: Changed, Change: c}, removed: true, tell: e.Gone != nil,
			})
			if e.outside != nil { // it may have left the selection, and be deleted there
				d.ask(request{key: c.Key, priority: live, cause: Cause{Reason: Changed, Change: c}})
			}
			continue
		case (e.Cleanup != nil || len(e.FormerFinalizers) > 0) && c.DeletionBegan(): // no predicate may leave this out
		case !e.passes(c):
			continue
		}
		r := r
		r.key, r.cause.Change = c.Key, c
		e.prioritize(&r)
		d.ask(r)
	}
}

// passes reports that the controller's predicate lets a change pass.
func (e *engine[T]) passes(c kube.Change) bool {
	pass, err := passes([]Predicate{e.Predicate}, c)
	if err != nil {
		e.log.Error("the predicate panicked",
			"change", Cause{Reason: Changed, Change: c}.String(), "error", err, "stack", stackOf(err))
	}
	return pass
}

// followSource asks for the keys that the changes of a source's objects concern.
func (e *engine[T]) followSource(ctx context.Context, d *dispatcher, s opened, cluster bool, synced chan<- struct{}) {
	r := request{priority: low, cause: Cause{Reason: Listed}}
	var all time.Time
	for c := range s.feed.Changes(ctx, kube.EveryStep) {
		switch {
		case c.Type == kube.Synced && r.cause.Reason == Changed:
			e.askForAll(ctx, d, s.feed, &all)
			continue
		case c.Type == kube.Synced:
			r = request{priority: live, cause: Cause{Reason: Changed}}
			close(synced)
			continue
		}
		keys := e.concerned(ctx, s, c, cluster)
		r := r
		r.cause.Change = c
		e.askFor(d, keys, r)
	}
}

// askForAll asks for all objects, because states of a feed's objects were left out: each
// object may have been reconciled with such a state, and need another reconcile. The call
// before has set *due to the time of its reconciles. A loop over the feed that is always
// slower than the changes does not ask more often than every allAgain.
func (e *engine[T]) askForAll(ctx context.Context, d *dispatcher, feed *kube.Informer, due *time.Time) {
	if now := time.Now(); !due.After(now) {
		if *due = due.Add(allAgain); due.Before(now) {
			*due = now
		}
		e.log.Warn("predicates and sources are slower than the changes: all objects are reconciled",
			"store", feed.Name(), "in", due.Sub(now))
	}
	for c := range e.objects.Changes(ctx) {
		if c.Type == kube.Synced {
			return
		}
		e.askFor(d, []kube.Key{c.Key}, request{
			due: *due, priority: low, cause: Cause{Reason: Resynced, of: markOf(stateOf(c)), depth: noDepth},
		})
	}
}

// allAgain is the least time between two reconciles of all objects that have the same cause.
const allAgain = time.Minute

// concerned returns the keys that a change of a source's object concerns.
func (e *engine[T]) concerned(ctx context.Context, s opened, c kube.Change, cluster bool) []kube.Key {
	pass, broken := passes(s.predicates, c)
	if !pass {
		return nil
	}
	keys, err := s.keys(ctx, c, e.gvk, cluster)
	if failed := errors.Join(broken, err); failed != nil && ctx.Err() == nil {
		e.log.Error("cannot find the objects that a change concerns",
			"change", Cause{Reason: Changed, Change: c}.String(), "error", failed, "stack", stackOf(failed))
	}
	// A predicate that fails has let the change pass: that needs no retry.
	for err != nil && s.persists && !errors.Is(err, kube.ErrNotCached) {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(askAgain):
		}
		keys, err = s.keys(ctx, c, e.gvk, cluster)
	}
	return keys
}

// askAgain is the pause before a source is asked again, after it has failed to return the
// keys that a change concerns.
const askAgain = time.Second

// askFor asks for keys, all for the same cause.
func (e *engine[T]) askFor(d *dispatcher, keys []kube.Key, r request) {
	if len(keys) > 0 {
		e.prioritize(&r)
	}
	for _, key := range keys {
		r.key = key
		d.ask(r)
	}
}

// runSource asks for the keys that a source without objects returns.
func (e *engine[T]) runSource(ctx context.Context, d *dispatcher, s opened) {
	s.run(ctx, func(keys func() []kube.Key) {
		err := protect(func() error { e.trigger(d, s.name, keys()); return nil })
		if err != nil {
			e.log.Error("a source panicked", "source", s.name, "error", err, "stack", stackOf(err))
		}
	})
}

func (e *engine[T]) trigger(d *dispatcher, name string, keys []kube.Key) {
	e.askFor(d, keys, request{priority: live, cause: Cause{Reason: Triggered, Source: name}})
}

// hook is an HTTP handler with its pattern.
type hook struct {
	pattern string
	handler http.HandlerFunc
}

// hooks implements runner.
func (e *engine[T]) hooks() (hooks []hook) {
	for _, s := range e.sources {
		if s.hook == nil {
			continue
		}
		hooks = append(hooks, hook{s.pattern, func(w http.ResponseWriter, r *http.Request) {
			d := e.current.Load()
			if d == nil || !d.begins() {
				w.Header().Set("Retry-After", "10")
				http.Error(w, "the controller does not run in this process", http.StatusServiceUnavailable)
				return
			}
			var keys []kube.Key
			err := protect(func() (err error) { keys, err = s.hook(r); return err })
			switch stack := stackOf(err); {
			case stack != "":
				e.log.Error("a hook panicked", "hook", s.name, "error", err, "stack", stack)
				http.Error(w, "the hook failed", http.StatusInternalServerError)
				return
			case err != nil:
				http.Error(w, err.Error(), hookStatus(err))
				return
			}
			e.trigger(d, s.name, keys)
			w.WriteHeader(http.StatusAccepted)
		}})
	}
	return hooks
}
