package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/pintle-go/pintle/kube"
)

// Source is something, besides the objects themselves, that makes a controller
// reconcile: [Owned], [Referenced], [Mapped], [Channel], [Every] or [Hook] make one.
type Source struct {
	name string
	// objects is what a feed is to be opened of.
	objects kube.AnyHandle
	// keys returns what a change concerns; the objects are of kind owner, and
	// have no namespace if cluster is true.
	keys    func(ctx context.Context, c kube.Change, owner kube.GVK, cluster bool) ([]kube.Key, error)
	filters []Predicate
	// persists has keys be asked again if it fails: nothing else tells of the change.
	persists bool
	// run asks for the keys that a function returns, until ctx ends, if the source
	// is not of objects.
	run func(ctx context.Context, ask func(func() []kube.Key))
	// period is that of a source that is timed.
	timed  bool
	period time.Duration
	// pattern and hook are of a source that is asked by HTTP.
	pattern string
	hook    func(*http.Request) ([]kube.Key, error)
}

// Owned makes a change of a child reconcile its owners of the controller's kind:
// [kube.SetController] makes it one. A change passes if all filters let it.
func Owned(children kube.AnyHandle, filters ...Predicate) Source {
	return Source{objects: children, filters: filters, keys: ownersOf}
}

// ownersOf returns the keys of the owners of a kind that an object has.
func ownersOf(_ context.Context, c kube.Change, owner kube.GVK, cluster bool) (keys []kube.Key, err error) {
	for o := range c.Owners() {
		if o.GVK.GroupKind() != owner.GroupKind() {
			continue
		}
		key := kube.Key{Namespace: c.Key.Namespace, Name: o.Name}
		if cluster {
			key.Namespace = ""
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// Referenced makes a change of an object reconcile those that refer to it, which an
// index finds by the key of what they refer to. For Letters that name their template:
//
//	byTemplate := kube.IndexBy(letters, func(l *Letter) []kube.Key {
//		return []kube.Key{{Namespace: l.Namespace, Name: l.Spec.Template}}
//	})
//	…
//	Watches: []controller.Source{controller.Referenced(templates, byTemplate)},
//
// The index is of the controller's own objects. In controller-runtime it takes a field
// index and handler.EnqueueRequestsFromMapFunc.
func Referenced[T any](objects kube.AnyHandle, by *kube.Index[T, kube.Key], filters ...Predicate) Source {
	referring := func(ctx context.Context, c kube.Change, _ kube.GVK, _ bool) (keys []kube.Key, err error) {
		for o, err := range by.Get(ctx, c.Key) {
			if err != nil {
				return keys, fmt.Errorf("find the objects that refer to it: %w", err)
			}
			keys = append(keys, kube.KeyOf(meta(o)))
		}
		return keys, nil
	}
	return Source{objects: objects, filters: filters, keys: referring, persists: true}
}

// Mapped makes a change of an object reconcile what keys returns for it. Of an
// object that was modified or deleted it is asked about both states, so that what no
// longer concerns it is reconciled too. It is called for every change that passes all
// filters, for all objects at the start; the changes of a kind wait for one
// another. Where the keys depend on other objects, it reads them from the cache: for a
// Namespace whose labels the selectors of Mirrors may match, it goes through
// mirrors.Cached().All(ctx). Its counterpart is handler.EnqueueRequestsFromMapFunc of
// controller-runtime.
func Mapped[T any](
	objects kube.Handle[T], keys func(ctx context.Context, o *T) []kube.Key, filters ...Predicate,
) Source {
	of := func(ctx context.Context, c kube.Change, _ kube.GVK, _ bool) (found []kube.Key, failed error) {
		var was, is *T
		err := protect(func() (err error) { was, is, err = kube.Decode[T](c); return err })
		for _, o := range []*T{was, is} {
			if o == nil || err != nil {
				continue
			}
			// What one state makes of it must not keep the other from being asked about.
			failed = errors.Join(failed, protect(func() error { found = append(found, keys(ctx, o)...); return nil }))
		}
		return found, errors.Join(err, failed)
	}
	return Source{objects: objects, filters: filters, keys: of}
}

// Channel makes what comes from a channel reconcile. Nothing is received before
// the controller runs, and nothing after the channel is closed.
func Channel(name string, keys <-chan kube.Key) Source {
	return Source{name: name, run: func(ctx context.Context, ask func(func() []kube.Key)) {
		for {
			select {
			case <-ctx.Done():
				return
			case key, ok := <-keys:
				if !ok {
					return
				}
				ask(func() []kube.Key { return []kube.Key{key} })
			}
		}
	}}
}

// Every makes what keys returns reconcile, first after the time d and then each
// time that d has passed since keys returned. For all objects of the controller
// see Resync.
func Every(name string, d time.Duration, keys func(ctx context.Context) []kube.Key) Source {
	return Source{name: name, timed: true, period: d, run: func(ctx context.Context, ask func(func() []kube.Key)) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
			ask(func() []kube.Key { return keys(ctx) })
			timer.Reset(d)
		}
	}}
}

// Hook makes an HTTP request reconcile what keys returns for it. The pattern is
// one of [http.ServeMux], such as "POST /hooks/git", at [Options].Address. The
// answer is 202, or 400 with the error, or 503 while the controller does not run,
// as in a standby. keys must see for itself who asks: whoever reaches the port can.
func Hook(pattern string, keys func(*http.Request) ([]kube.Key, error)) Source {
	return Source{name: pattern, pattern: pattern, hook: keys}
}

// validate returns what is wrong with a source.
func (s Source) validate() error {
	switch {
	case s.objects != nil:
		return nil
	case s.run == nil && s.hook == nil:
		return errors.New("a source is the zero value: make it with Owned, Referenced, Mapped, Channel, Every or Hook")
	case s.name == "":
		return errors.New("a source has no name")
	case s.timed && s.period <= 0:
		return fmt.Errorf("the source %q has a period of %s", s.name, s.period)
	}
	return nil
}
