package controller

import (
	"context"
	"regexp"
	"time"

	"github.com/pintle-go/pintle/kube"
)

// Controller reconciles the objects of a kind. For and Reconcile are required; the other
// fields have defaults for their zero values. In controller-runtime this is
// builder.Builder, in kube-rs it is Controller.
type Controller[T any] struct {
	// Name names the controller in logs, in metrics and in its finalizer. No two
	// controllers of a program may have the same name. The name must stay the same from
	// release to release. Default: the kind in lower case.
	Name string
	// For is the handle of the objects: a [kube.Resource] or [kube.View], or a
	// [kube.Reader] if there is no Cleanup. If the handle is narrowed by a namespace or
	// selectors, the controller knows only of the objects inside, except that it cleans up
	// those that have left its selectors: see Cleanup.
	For kube.Handle[T]
	// Owns are kinds whose objects the reconciled objects own. A change of such a child
	// reconciles its owner. It is short for [Owned] without predicates, and is Owns of
	// controller-runtime's builder and owns of kube-rs's Controller.
	Owns []kube.AnyHandle
	// Watches are the other sources: see [Source]. It is Watches and WatchesRawSource of
	// controller-runtime's builder.
	Watches []Source
	// Reads are kinds that a reconcile only reads. Their stores are filled before the
	// first reconcile and kept until Run returns. Their changes cause no reconcile. A
	// reconcile that waits for a state reads it by the handle of the source that tells of
	// it: the store of another handle may be behind when the source has told.
	Reads []kube.AnyHandle
	// Predicate leaves out changes of the objects themselves. Default: no change is left
	// out.
	Predicate Predicate

	// Reconcile makes the world match an object, as far as that can be done at present.
	// It is called again until it returns no error. It may also be called at any time
	// though nothing has changed. So it writes the objects that it owns with
	// [kube.View.Ensure], and the object's status with [kube.StatusView.Ensure]: both
	// cost nothing when nothing has changed. Reconcile may change the object that it
	// gets. Its context ends after Timeout, or when the program must stop. It is
	// Reconcile of controller-runtime's reconcile.Reconciler.
	Reconcile func(ctx context.Context, o *T) (Action, error)
	// Cleanup is called when the deletion of an object has begun. It undoes everything
	// that the garbage collector would leave behind. It is called until it returns [Done]
	// without an error. Until then a finalizer keeps the object. The finalizer is added
	// before the object's first reconcile. A program that drops its Cleanup names the
	// finalizer among the FormerFinalizers: without that, objects that carry it are never
	// deleted. It is the Cleanup event of kube-rs's finalizer.
	//
	// An object that leaves the labels or fields of For is not reconciled any more. It keeps
	// its finalizer, and is cleaned up when it is deleted, even if it has left while the
	// program did not run. For that the controller keeps the metadata of all objects in the
	// namespaces of For, unless the only selector is one of names. Programs that share a kind
	// by labels need a Finalizer each, or an object that has gone from one to the other is
	// cleaned up by both. An object that does not decode cannot be cleaned up: its deletion
	// waits until it is mended, and the failure is logged, and recorded as an event, again
	// and again.
	Cleanup func(ctx context.Context, o *T) (Action, error)
	// Finalizer is the name of the finalizer. API servers accept any qualified name for
	// custom kinds, with a warning if the name has no slash. Default: group/name, such as
	// example.com/echo. It must be given for kinds of the core group. No two controllers
	// of a program may have a finalizer of one kind in common.
	Finalizer string
	// FormerFinalizers are the names of finalizers that earlier releases of the program
	// used, or a program that this one succeeds. This controller cleans up an object that
	// carries one. It puts its own finalizer in their place before the object's next
	// reconcile, or removes them if there is no Cleanup.
	FormerFinalizers []string
	// Failed, if it is set, is called after a reconcile or cleanup that failed, so that
	// it can write a condition or an event. It gets the object as the failed function
	// left it. An error of Failed is logged. Failed has ten seconds, even after a
	// reconcile that took too long. It is not called for a reconcile that a stop of the
	// program cut off, nor for an object that does not decode: a status that is written from
	// such an object would lose what could not be read.
	Failed func(ctx context.Context, o *T, err error) error
	// Gone, if it is set, is called with the last known state of an object that is gone,
	// or that has left the selection of For. It is for things that may be left undone,
	// such as the removal of a metric of the object; [Controller.Cleanup] is for things
	// that must be done.
	//
	// Gone is called at least once for every object that the running controller has seen,
	// until it returns no error or a [Terminal] one. It is never called at the same time
	// as another function for the key. It is called before the reconcile of a new object
	// of the name. If there is such an object and the key has failed five times in a row,
	// Gone is not called again. It is not called for an object that did not decode, nor
	// for objects that vanish while the controller does not run. It may miss an object
	// that came and went while Predicate or Priority was about a thousand updates behind.
	Gone func(ctx context.Context, o *T) error

	// Concurrency is the number of objects that are reconciled at the same time at most.
	// Default: 16. It is MaxConcurrentReconciles of controller-runtime and concurrency of
	// kube-rs.
	Concurrency int
	// Timeout is the longest time that a reconcile may take with everything in it.
	// Default: 2 minutes. It is ReconciliationTimeout of controller-runtime.
	Timeout time.Duration
	// Resync is the time after a [Done] when the object is reconciled again though
	// nothing has changed. It is for changes that no watch shows. The time varies by a
	// tenth. Default: no resync.
	Resync time.Duration
	// Backoff is how long a failed reconcile waits for its retry.
	Backoff Backoff
	// EveryReplica makes the controller run in every process of the program, from the
	// start. No lease keeps its reconciles from writing. It is for work that each process
	// must do for itself, such as filling a cache of its own. Default: the controller
	// runs while the lease is held. In controller-runtime this is NeedLeaderElection set
	// to false.
	EveryReplica bool
	// MinInterval is the least time between the end of a reconcile of an object and the
	// start of its next reconcile. Requests in between are merged. Default: none.
	MinInterval time.Duration
	// Priority, if it is set, returns the priority of a cause when the cause arises. It
	// must be quick, because the changes of a kind wait for one another.
	Priority func(Cause) Priority
}

// Any is a [Controller] of any type.
type Any interface {
	Handles() Handles
	prepare(env environment) (runner, error)
}

const (
	defaultConcurrency = 16
	defaultTimeout     = 2 * time.Minute
	maxConcurrency     = 100_000
	maxResync          = 10 * 365 * 24 * time.Hour
)

// everyReplica implements runner.
func (c Controller[T]) everyReplica() bool { return c.EveryReplica }

var nameFormat = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

// writer returns the view of a handle that can patch, and whether there is one.
func writer[T any](h kube.Handle[T]) (kube.View[T], bool) {
	switch h := h.(type) {
	case kube.Resource[T]:
		return h.View, true
	case *kube.Resource[T]:
		return h.View, true
	case kube.View[T]:
		return h, true
	case *kube.View[T]:
		return *h, true
	}
	return kube.View[T]{}, false
}
