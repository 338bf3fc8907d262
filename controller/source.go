package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/pintle-go/pintle/kube"
)

// Source is a cause of reconciles besides the changes of the objects themselves. [Owned],
// [Referenced], [Mapped], [Channel], [Every] and [Hook] make sources. In
// controller-runtime this is source.Source.
type Source struct {
	name string
	// objects is the handle that a feed is opened of. owned tells whether these are children.
	objects    kube.AnyHandle
	owned      bool
	keys       concerned
	predicates []Predicate
	// indexed, if it is set, makes keys when the controller's store is open.
	indexed indexed
	// persists makes a failed call of keys be retried, because nothing else tells of the
	// change.
	persists bool
	// run asks for the keys that a function returns, until ctx ends. It is for a source
	// that is not of objects.
	run func(ctx context.Context, ask func(func() []kube.Key))
	// pattern and hook are those of a source that HTTP requests trigger.
	pattern string
	hook    func(*http.Request) ([]kube.Key, error)
	// wrong is the mistake in making the source.
	wrong error
}

// concerned returns the keys that a change concerns. Their objects are of kind owner, and
// have no namespace if cluster is true.
type concerned func(ctx context.Context, c kube.Change, owner kube.GVK, cluster bool) ([]kube.Key, error)

// required returns an error if what a source needs is not there.
func required(source, what string, there bool) error {
	if there {
		return nil
	}
	return fmt.Errorf("%s has no %s", source, what)
}

// Owned reconciles the owners of a child when the child changes: those of the
// controller's kind. [kube.SetController] makes an object such a child. The owners are
// those of every state that the store of the children has had. A change passes if all
// predicates let it. In controller-runtime this is handler.EnqueueRequestForOwner.
func Owned(children kube.AnyHandle, predicates ...Predicate) Source {
	return Source{
		objects: children, owned: true, predicates: predicates, keys: ownersOf,
		wrong: required("Owned", "handle", !isNil(children)),
	}
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

// Referenced reconciles the objects that refer to an object when that object changes. The
// function refersTo returns the keys of the objects to which one of the controller's own
// objects refers. For Letters that name their template:
//
//	Watches: []controller.Source{controller.Referenced(templates, func(l *Letter) []kube.Key {
//		return []kube.Key{{Namespace: l.Namespace, Name: l.Spec.Template}}
//	})},
//
// Referenced keeps an index of the store from which the controller reads its objects, so it
// knows each reference that a reconcile has read. What [kube.IndexBy] says of its function
// holds for refersTo. Each step of a referred object counts, even if it has changed back
// meanwhile, or has come and gone. In controller-runtime this takes a field index and
// handler.EnqueueRequestsFromMapFunc.
func Referenced[T any](objects kube.AnyHandle, refersTo func(*T) []kube.Key, predicates ...Predicate) Source {
	return Source{
		objects: objects, predicates: predicates, indexed: &references[T]{of: refersTo}, persists: true,
		wrong: errors.Join(
			required("Referenced", "handle", !isNil(objects)), required("Referenced", "function", refersTo != nil)),
	}
}

// indexed is an index of a controller's own objects, of any type.
type indexed interface {
	// fits returns an error if the objects of a handle are of another type.
	fits(of kube.AnyHandle) error
	// keys returns the keys of the objects that refer to a changed one. The objects are
	// those of a handle, and of the open store.
	keys(of kube.AnyHandle, store *kube.Informer) concerned
}

// references are the references of objects of type T to others.
type references[T any] struct {
	of func(*T) []kube.Key

	mu sync.Mutex
	// by has an index for each store, so that a Run does not make the index of an earlier
	// one again: a client keeps its indexes.
	by map[indexedStore]*kube.Index[T, kube.Key]
}

// indexedStore identifies the store of a handle.
type indexedStore struct {
	client *kube.Client
	kind   kube.GVK
	name   string
}

func (r *references[T]) fits(of kube.AnyHandle) error {
	if _, fits := of.(kube.Handle[T]); fits {
		return nil
	}
	return fmt.Errorf("Referenced has a function of %s, and needs one of the controller's own type",
		reflect.TypeFor[T]())
}

func (r *references[T]) keys(of kube.AnyHandle, store *kube.Informer) concerned {
	by := r.index(of, store)
	return func(ctx context.Context, c kube.Change, _ kube.GVK, _ bool) (keys []kube.Key, err error) {
		for o, err := range by.Get(ctx, c.Key) {
			if err != nil {
				return keys, fmt.Errorf("find the referring objects: %w", err)
			}
			keys = append(keys, kube.KeyOf(meta(o)))
		}
		return keys, nil
	}
}

func (r *references[T]) index(of kube.AnyHandle, store *kube.Informer) *kube.Index[T, kube.Key] {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := indexedStore{of.Client(), of.Kind().GVK, store.Name()}
	if r.by[id] == nil {
		if r.by == nil {
			r.by = make(map[indexedStore]*kube.Index[T, kube.Key])
		}
		r.by[id] = kube.IndexBy(of.(kube.Handle[T]), r.of)
	}
	return r.by[id]
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
	return Source{
		objects: objects, predicates: predicates, keys: of,
		wrong: errors.Join(
			required("Mapped", "handle", !isNil(objects)), required("Mapped", "function", keys != nil)),
	}
}

// Channel reconciles the keys that come from a channel. Nothing is received before the
// controller runs, and nothing after the channel is closed. It is like source.Channel of
// controller-runtime and reconcile_on of kube-rs.
func Channel(name string, keys <-chan kube.Key) Source {
	run := func(ctx context.Context, ask func(func() []kube.Key)) {
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
	}
	source := fmt.Sprintf("the source %q", name)
	return Source{name: name, run: run, wrong: errors.Join(
		required("a Channel", "name", name != ""), required(source, "channel", keys != nil))}
}

// Every reconciles the keys that the function keys returns. The first call comes after
// the time d, and each further call when d has passed since keys returned. To reconcile
// all objects of the controller from time to time, use [Controller].Resync. It is like
// source.Func of controller-runtime and reconcile_all_on of kube-rs's Controller, with a
// ticker.
func Every(name string, d time.Duration, keys func(ctx context.Context) []kube.Key) Source {
	run := func(ctx context.Context, ask func(func() []kube.Key)) {
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
	}
	source := fmt.Sprintf("the source %q", name)
	return Source{name: name, run: run, wrong: errors.Join(
		required("an Every", "name", name != ""), required(source, "period: it is "+d.String(), d > 0),
		required(source, "function", keys != nil))}
}

// Hook reconciles the keys that the function keys returns for an HTTP request. The
// pattern is a pattern of [http.ServeMux], such as "POST /hooks/git", at
// [Options].Address. The answer is 202, or 400 with the error, or 503 while the
// controller does not run, as in a standby. keys must check the sender itself: everybody
// who reaches the port can send a request.
func Hook(pattern string, keys func(*http.Request) ([]kube.Key, error)) Source {
	source := fmt.Sprintf("the hook %q", pattern)
	return Source{name: pattern, pattern: pattern, hook: keys, wrong: errors.Join(
		required("a Hook", "pattern", pattern != ""), required(source, "function", keys != nil))}
}

// validate returns the mistake in a source of a controller for the objects of a handle.
func (s Source) validate(of kube.AnyHandle) error {
	switch {
	case s.wrong != nil:
		return s.wrong
	case s.objects != nil && s.objects.Err() != nil:
		return s.objects.Err()
	case s.owned && of.Err() == nil && !s.objects.Client().SameCluster(of.Client()):
		return fmt.Errorf("the children %s are in another cluster than %s: an owner is in the cluster of its children",
			s.objects.Kind().Kind, of.Kind().Kind)
	case s.indexed != nil:
		return s.indexed.fits(of)
	case s.objects == nil && s.run == nil && s.hook == nil:
		return errors.New("a source is the zero value: make it with Owned, Referenced, Mapped, Channel, Every or Hook")
	}
	return nil
}
