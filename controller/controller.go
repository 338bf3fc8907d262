package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pintle-go/pintle/kube"
)

// Controller reconciles the objects of a kind. For and Reconcile are required;
// the zero value of the rest has defaults.
type Controller[T any] struct {
	// Name names the controller in logs, metrics and its finalizer. It must not
	// be another's in the program, and stay the same from release to release.
	// Default: the kind in lower case.
	Name string
	// For is the handle of the objects: a [kube.Resource] or [kube.View], or a
	// [kube.Reader] if there is no Cleanup. What it is narrowed to is all that
	// the controller knows of.
	For kube.Handle[T]
	// Owns are kinds whose objects the reconciled ones own: a change of such a
	// child reconciles its owner. It is short for [Owned] without filters.
	Owns []kube.AnyHandle
	// Watches are the other sources: see [Source].
	Watches []Source
	// Reads are kinds that a reconcile only reads. Their stores are filled before
	// the first reconcile and kept until Run returns; their changes reconcile
	// nothing.
	Reads []kube.AnyHandle
	// Predicate leaves out changes of the objects themselves. Default: none is.
	Predicate Predicate

	// Reconcile brings the world to what an object says, for as much as can be
	// done now. It is called again until it returns no error, and may be called
	// at any time though nothing has changed: what it owns it writes with
	// [kube.View.Ensure] and the object's status with [kube.View.EnsureStatus], which cost
	// nothing then. The object is its own to change;
	// its context ends after Timeout, or when the program must stop.
	Reconcile func(ctx context.Context, o *T) (Action, error)
	// Cleanup undoes, when the deletion of an object has begun, what the garbage
	// collector would not. It is called until it returns [Done] without an error;
	// until then a finalizer, which was added before the object's first reconcile,
	// keeps the object. A program that drops its Cleanup names the finalizer among
	// the FormerFinalizers: without that, objects that carry it are never deleted.
	Cleanup func(ctx context.Context, o *T) (Action, error)
	// Finalizer is the name of the finalizer. API servers accept any qualified name for
	// custom kinds, with a warning if it has no slash. Default: group/name, such as
	// example.com/echo. It must be given for kinds of the core group. No two
	// controllers of a program may have a finalizer of one kind in common.
	Finalizer string
	// FormerFinalizers are the names that earlier releases of the program, or a
	// program that this one succeeds, gave their finalizers. An object that carries
	// one is cleaned up by this controller. The controller puts its own in their
	// place before the object's next reconcile, or removes them if there is no
	// Cleanup.
	FormerFinalizers []string
	// Failed, if it is set, is called after a reconcile or cleanup that failed,
	// with the object as that left it: to say so in a condition or an event. Its
	// own error is logged. It has ten seconds, also after a reconcile that took too
	// long, and is not called for what a stop of the program cut off. It is also
	// called with a [HotLoopError], after a reconcile that may have gone well. If the
	// reconcile has failed too, the error wraps both.
	Failed func(ctx context.Context, o *T, err error) error
	// Gone, if it is set, is called with the last known state of an object that is
	// gone, or is no longer among those that For is narrowed to. It is for what can
	// be forgotten, such as a metric of the object; [Controller.Cleanup] is for what
	// must not be missed. It is called at least once for every object that the
	// running controller has seen, until it returns no error or a [Terminal] one, never
	// at the same time as another function for the key, and before the reconcile of a new
	// object of the name. It is not called for one that did not decode. It is not called for objects that vanish while the controller does not run.
	Gone func(ctx context.Context, o *T) error

	// Concurrency is how many objects are reconciled at the same time at most.
	// Default: 16.
	Concurrency int
	// Timeout is how long a reconcile may take, all it does included. Default:
	// 2 minutes.
	Timeout time.Duration
	// Resync is how long after it was [Done] an object is reconciled again though
	// nothing has changed, for what changes unseen. It varies by a tenth. Default:
	// never.
	Resync time.Duration
	// Backoff is how long a failed reconcile waits for its next try.
	Backoff Backoff
	// EveryReplica has the controller run in every process of the program, from the
	// start. No lease keeps its reconciles from writing. It is for what each process
	// must do for itself, such as filling a cache of its own. Default: it runs
	// while the lease is held. In controller-runtime it is NeedLeaderElection.
	EveryReplica bool
	// MinInterval is the least time between the end of a reconcile of an object and
	// the start of its next one. What is asked for meanwhile is merged. Default: none.
	MinInterval time.Duration
	// Priority, if it is set, is asked for the priority of a cause when it arises.
	// It must be quick: the changes of a kind wait for one another.
	Priority func(Cause) Priority
	// SkipOwnWrites leaves out a reconcile that is caused by nothing but what the
	// object's last reconciles have written, in the status or in a child: they know
	// it from the answers. It is for reconciles that need no second look at what the
	// server made of their writes.
	SkipOwnWrites bool
}

// Any is a [Controller] of any type.
type Any interface {
	prepare(env environment) (runner, error)
}

const (
	defaultConcurrency = 16
	defaultTimeout     = 2 * time.Minute
	maxConcurrency     = 100_000
	maxResync          = 10 * 365 * 24 * time.Hour
)

// withDefaults checks a controller and fills in what was left out.
func (c Controller[T]) withDefaults() (Controller[T], error) {
	if c.For == nil {
		return c, fmt.Errorf("configure controller %q: For is missing", c.Name)
	}
	kind := c.For.ReadOnly().Kind()
	c.Name = cmp.Or(c.Name, strings.ToLower(kind.Kind))
	c.Concurrency = cmp.Or(c.Concurrency, defaultConcurrency)
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	c.Backoff = c.Backoff.withDefaults()
	if c.Finalizer == "" && kind.Group != "" {
		c.Finalizer = kind.Group + "/" + c.Name
	}
	var err error
	switch _, writes := writer(c.For); {
	case !nameFormat.MatchString(c.Name):
		err = errors.New("the name must be of lower-case letters, digits and dashes")
	case c.Reconcile == nil:
		err = errors.New("Reconcile is missing") //nolint:staticcheck // a field's name
	case c.Concurrency < 0 || c.Timeout < 0 || c.Resync < 0 || c.MinInterval < 0:
		err = errors.New("a number is negative")
	case c.Concurrency > maxConcurrency:
		err = fmt.Errorf("Concurrency is more than %d", maxConcurrency) //nolint:staticcheck // a field's name
	case c.Resync > maxResync:
		err = fmt.Errorf("Resync is more than %s", maxResync) //nolint:staticcheck // a field's name
	case c.Cleanup != nil && !writes:
		err = errors.New("with Cleanup, For must be able to write: a Resource or a View")
	case len(c.FormerFinalizers) > 0 && !writes:
		err = errors.New("with FormerFinalizers, For must be able to write: a Resource or a View")
	case c.Cleanup != nil && c.Finalizer == "":
		err = fmt.Errorf("the finalizer needs a name, because %s is of the core group", kind.Kind)
	case slices.Contains(c.FormerFinalizers, c.Finalizer) && c.Cleanup != nil:
		err = fmt.Errorf("the finalizer %q is also a former one", c.Finalizer)
	default:
		err = c.checkFinalizers()
	}
	if err != nil {
		return c, fmt.Errorf("configure controller %q: %w", c.Name, err)
	}
	return c, nil
}

// everyReplica implements runner.
func (c Controller[T]) everyReplica() bool { return c.EveryReplica }

var nameFormat = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

// writer returns the part of a handle that can patch.
func writer[T any](h kube.Handle[T]) (kube.View[T], bool) {
	switch h := h.(type) {
	case kube.Resource[T]:
		return h.View, true
	case kube.View[T]:
		return h, true
	}
	return kube.View[T]{}, false
}
