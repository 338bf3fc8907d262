package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"time"

	"github.com/pintle-go/pintle/kube"
)

// Source is a cause of reconciles besides the changes of the objects themselves. [Owned],
// [Referenced], [Mapped], [Channel], [Every] and [Hook] make sources. In
// controller-runtime this is source.Source.
type Source struct {
	name string
	// objects is the handle that a feed is opened of. owned tells whether these are children.
	objects kube.AnyHandle
	owned   bool
	// keys returns the keys that a change concerns. Their objects are of kind owner, and
	// have no namespace if cluster is true.
	keys       func(ctx context.Context, c kube.Change, owner kube.GVK, cluster bool) ([]kube.Key, error)
	predicates []Predicate
	// indexed is the type of the objects of an index, if there is one.
	indexed reflect.Type
	// persists makes a failed call of keys be retried, because nothing else tells of the
	// change.
	persists bool
	// run asks for the keys that a function returns, until ctx ends. It is for a source
	// that is not of objects.
	run func(ctx context.Context, ask func(func() []kube.Key))
	// period is the period of a timed source.
	timed  bool
	period time.Duration
	// pattern and hook are those of a source that HTTP requests trigger.
	pattern string
	hook    func(*http.Request) ([]kube.Key, error)
}

// Owned reconciles the owners of a child when the child changes: those of the
// controller's kind. [kube.SetController] makes an object such a child. The owners are
// those of every state that the store of the children has had. A change passes if all
// predicates let it. In controller-runtime this is handler.EnqueueRequestForOwner.
func Owned(children kube.AnyHandle, predicates ...Predicate) Source {
	return Source{objects: children, owned: true, predicates: predicates, keys: ownersOf}
}

// ownersOf returns the keys of an object's owners that are of a kind.
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

// Referenced reconciles the objects that refer to an object when that object changes. An
// index finds them by the key of the object that they refer to. For Letters that name
// their template:
//
//	byTemplate := kube.IndexBy(letters, func(l *Letter) []kube.Key {
//		return []kube.Key{{Namespace: l.Namespace, Name: l.Spec.Template}}
//	})
//	…
//	Watches: []controller.Source{controller.Referenced(templates, byTemplate)},
//
// The index is of the controller's own objects, and of the handle For: the index of another
// handle's store may be behind, and lack a reference that a reconcile has read. Each step
// of a referred object counts, even if it has changed back meanwhile, or has come and gone.
// In controller-runtime this takes a field index and handler.EnqueueRequestsFromMapFunc.
func Referenced[T any](objects kube.AnyHandle, by *kube.Index[T, kube.Key], predicates ...Predicate) Source {
	referring := func(ctx context.Context, c kube.Change, _ kube.GVK, _ bool) (keys []kube.Key, err error) {
		for o, err := range by.Get(ctx, c.Key) {
			if err != nil {
				return keys, fmt.Errorf("find the referring objects: %w", err)
			}
			keys = append(keys, kube.KeyOf(meta(o)))
		}
		return keys, nil
	}
	return Source{
		objects: objects, predicates: predicates, keys: referring, indexed: reflect.TypeFor[T](), persists: true,
	}
}

// Mapped reconciles the keys that the function keys returns for an object, when that
// object changes. For an object that was modified or deleted, keys is called with both
// states. So a key that the object concerned only before the change is reconciled too.
// keys is called for every change that passes all predicates, and at the start for all
// objects. The changes of a kind wait for one another. Without predicates, keys is called
// with every state that the store of the objects has had, in order, even if calls take
// long and an object has changed back meanwhile, or has come and gone. If the calls are
// more than about a thousand changes behind, some states are left out, and all objects of
// the controller are reconciled instead.
//
// If the result depends on other objects, keys reads those from the cache. For a
// Namespace whose labels the selectors of Mirrors may match, for example, it goes through
// mirrors.Cached().All(ctx). The counterparts of Mapped are
// handler.EnqueueRequestsFromMapFunc of controller-runtime and watches of kube-rs's
// Controller.
func Mapped[T any](
	objects kube.Handle[T], keys func(ctx context.Context, o *T) []kube.Key, predicates ...Predicate,
) Source {
	of := func(ctx context.Context, c kube.Change, _ kube.GVK, _ bool) (found []kube.Key, failed error) {
		var was, is *T
		err := protect(func() (err error) { was, is, err = kube.Decode[T](c); return err })
		for _, o := range []*T{was, is} {
			if o == nil || err != nil {
				continue
			}
			// A failure with one state must not keep the other state from the call.
			failed = errors.Join(failed, protect(func() error { found = append(found, keys(ctx, o)...); return nil }))
		}
		return found, errors.Join(err, failed)
	}
	return Source{objects: objects, predicates: predicates, keys: of}
}

// Channel reconciles the keys that come from a channel. Nothing is received before the
// controller runs, and nothing after the channel is closed. It is like source.Channel of
// controller-runtime and reconcile_on of kube-rs.
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

// Every reconciles the keys that the function keys returns. The first call comes after
// the time d, and each further call when d has passed since keys returned. To reconcile
// all objects of the controller from time to time, use [Controller].Resync. It is like
// source.Func of controller-runtime and reconcile_all_on of kube-rs's Controller, with a
// ticker.
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

// Hook reconciles the keys that the function keys returns for an HTTP request. The
// pattern is a pattern of [http.ServeMux], such as "POST /hooks/git", at
// [Options].Address. The answer is 202, or 400 with the error, or 503 while the
// controller does not run, as in a standby. keys must check the sender itself: everybody
// who reaches the port can send a request.
func Hook(pattern string, keys func(*http.Request) ([]kube.Key, error)) Source {
	return Source{name: pattern, pattern: pattern, hook: keys}
}

// validate returns the mistake in a source of a controller for objects of a type.
func (s Source) validate(of reflect.Type) error {
	switch {
	case s.indexed != nil && s.indexed != of:
		return fmt.Errorf("Referenced has an index of %s, and needs one of the controller's own type %s", s.indexed, of)
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
