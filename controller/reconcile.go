package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/event"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/metrics"
)

// ErrTimeout is the cause of the end of a reconcile's context that took longer
// than the controller's Timeout, and is wrapped by its error.
var ErrTimeout = errors.New("the reconcile took too long")

// PanicError is what a reconcile that panicked has failed with.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// stackOf returns the stack of a panic, nothing for another error.
func stackOf(err error) string {
	if p := (*PanicError)(nil); errors.As(err, &p) {
		return string(p.Stack)
	}
	return ""
}

// run is one reconcile, in its context.
type run struct {
	key    kube.Key
	causes causes
	log    *slog.Logger // the controller's
	writes *writes

	mu  sync.Mutex
	uid types.UID
	// status is that of the object as it was read or last written, encoded;
	// blank is the uid if it was written and is all zero.
	status string
	blank  types.UID
}

type runKey struct{}

// logger is made when it is asked for, as most reconciles log nothing.
func (r *run) logger() *slog.Logger { return r.log.With("object", r.key.String()) }

// Logger returns the logger of the reconcile whose context ctx is, which names
// controller and object, or else slog.Default().
func Logger(ctx context.Context) *slog.Logger {
	if r, ok := ctx.Value(runKey{}).(*run); ok {
		return r.logger()
	}
	return slog.Default()
}

// outcome is what became of a reconcile.
type outcome struct {
	gone   bool // there is no such object
	action Action
	err    error
	// trace is the context that Trace returned, for what is logged.
	trace context.Context
}

// reconcile works on a key: it reads the object and calls what is there for it.
func (e *engine[T]) reconcile(ctx context.Context, r *run) (out outcome) {
	ctx = kube.WithRecorder(context.WithValue(ctx, runKey{}, r), r.writes.note)
	start := time.Now()
	end, late := start.Add(e.Timeout), fmt.Errorf("%w: more than %s", ErrTimeout, e.Timeout)
	limited, cancel := context.WithDeadlineCause(ctx, end, late)
	defer cancel()
	o, err := e.store.Get(limited, r.key)
	switch {
	case apierrors.IsNotFound(err):
		return outcome{gone: true, trace: ctx}
	case err == nil && e.ignores(o):
		return outcome{gone: true, trace: ctx}
	case err == nil:
		span, endSpan := e.span(ctx, r, o)
		limited, cancel := context.WithDeadlineCause(span, end, late)
		defer cancel()
		r.read(meta(o), r.blank)
		out = e.turn(limited, r, o)
		out.err, out.trace = because(limited, out.err), span
		endSpan(out.err)
		if e.isGone(span, o, out.err) {
			e.log.DebugContext(span, "reconcile ends, because its object is gone",
				"object", r.key.String(), "error", out.err)
			return outcome{gone: true, trace: span}
		}
	default:
		out.err, out.trace = because(limited, err), ctx
		if o != nil {
			out.err = Terminal(err) // it does not decode
		}
	}
	e.count(out, time.Since(start))
	if out.err != nil && err == nil && ctx.Err() == nil {
		e.report(out.trace, r, o, start, out.err)
	}
	return out
}

// because adds to an error why the context of its reconcile has ended.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// isGone reports that a reconcile has failed because its object was deleted
// meanwhile: an object of its name may be there again. The server is asked, as the
// watch may be late.
func (e *engine[T]) isGone(ctx context.Context, o *T, failure error) bool {
	if !apierrors.IsNotFound(failure) && !apierrors.IsConflict(failure) {
		return false
	}
	ctx, cancel := context.WithTimeoutCause(ctx, reportTime, ErrTimeout)
	defer cancel()
	handle := e.For.ReadOnly()
	if namespace := meta(o).GetNamespace(); namespace != "" {
		handle = handle.In(namespace)
	}
	is, err := handle.Get(ctx, meta(o).GetName())
	return apierrors.IsNotFound(err) || err == nil && meta(is).GetUID() != meta(o).GetUID()
}

// reportTime is how long a failure may take to be reported, after a reconcile
// that may have taken all of its time.
const reportTime = 10 * time.Second

// report says on the object that a reconcile, which began at start, has failed. It
// has the time to do so also after a reconcile that took all of its own.
func (e *engine[T]) report(ctx context.Context, r *run, o *T, start time.Time, failure error) {
	if e.Failed != nil {
		limited, cancel := context.WithTimeoutCause(ctx, reportTime, ErrTimeout)
		defer cancel()
		if err := protect(func() error { return e.Failed(limited, o, failure) }); err != nil {
			r.logger().WarnContext(ctx, "cannot report the failure", "error", err)
		}
	}
	if about, ok := any(o).(event.Object); ok && e.events != nil {
		e.events.Failure(about, start, "ReconcileFailed", failure)
	}
}

// ignores reports an object that is deleted, with nothing for the controller to
// clean up.
func (e *engine[T]) ignores(o *T) bool {
	acc := meta(o)
	return acc.GetDeletionTimestamp() != nil && !e.holds(acc)
}

// meta returns the metadata of an object: package kube has made sure that every
// type of a handle has some.
func meta[T any](o *T) metav1.Object { return any(o).(metav1.Object) }

// span begins the span of a reconcile, if there is a tracer.
func (e *engine[T]) span(ctx context.Context, r *run, o *T) (context.Context, func(error)) {
	if e.trace == nil {
		return ctx, func(error) {}
	}
	return e.trace(ctx, "reconcile "+e.Name,
		slog.String("controller", e.Name), slog.String("namespace", r.key.Namespace), slog.String("name", r.key.Name),
		slog.String("uid", string(meta(o).GetUID())), slog.String("causes", r.causes.String()))
}

// turn does what an object needs: its reconcile or, if it is deleted, its
// cleanup, with the finalizer before and after.
func (e *engine[T]) turn(ctx context.Context, r *run, o *T) (out outcome) {
	if meta(o).GetDeletionTimestamp() != nil {
		if e.Cleanup != nil {
			out.err = protect(func() (err error) { out.action, err = e.Cleanup(ctx, o); return err })
		}
		if out.err == nil && out.action == Done {
			out.err = e.release(ctx, o)
		}
		return out
	}
	if !e.ready(meta(o)) {
		held, err := e.hold(ctx, o)
		switch {
		case err != nil:
			return outcome{err: err}
		case held == nil || meta(held).GetDeletionTimestamp() != nil:
			return outcome{} // it is being deleted: a change will tell
		}
		*o = *held
		r.read(meta(o), r.blank)
	}
	out.err = protect(func() (err error) { out.action, err = e.Reconcile(ctx, o); return err })
	return out
}

// protect calls f and returns its panic as an error.
func protect(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return f()
}

// count counts a reconcile in the metrics.
func (e *engine[T]) count(out outcome, took time.Duration) {
	result := metrics.Success
	switch {
	case out.err != nil:
		result = metrics.Failure
	case out.action > 1:
		result = metrics.RequeueAfter
	case out.action == 1:
		result = metrics.Requeue
	}
	e.counts.Reconciled(result, took)
	if stackOf(out.err) != "" {
		e.counts.Panicked()
	}
	if IsTerminal(out.err) {
		e.counts.Terminal()
	}
}

// settle returns what comes after a reconcile, if anything does, and how often in
// a row the object's has failed. It is called with mu held.
func (e *engine[T]) settle(it *item, r *run, out outcome, now time.Time) (next request, ok bool, failures int) {
	next = request{key: it.key, priority: it.priority}
	if out.gone {
		delete(e.known, it.key)
		return next, false, 0
	}
	h := e.remember(it.key, r, out, now)
	switch {
	case out.err != nil && !IsTerminal(out.err):
		next.due = now.Add(e.Backoff.delay(h.failures, out.err))
		next.cause = Cause{Reason: Retried, Err: out.err}
		h.retryAt = next.due
	case out.err == nil && out.action > 0:
		next.due = now.Add(time.Duration(out.action))
		next.cause = Cause{Reason: Requested, due: next.due}
	case e.Resync > 0 && out.action != Await:
		next.due, next.priority = now.Add(e.Resync-e.Resync/10+rand.N(e.Resync/5+1)), low
		next.cause = Cause{Reason: Resynced, due: next.due}
	default:
		return next, false, h.failures
	}
	return next, true, h.failures
}

// remember keeps what the next reconcile of an object must know of this one.
func (e *engine[T]) remember(key kube.Key, r *run, out outcome, now time.Time) *history {
	h := e.known[key]
	if h == nil {
		h = new(history)
	}
	h.failures++
	if out.err == nil {
		h.failures, h.retryAt = 0, time.Time{}
	}
	r.mu.Lock()
	h.blank = r.blank
	r.mu.Unlock()
	h.last = now
	if r.writes.any() {
		r.writes.follow(h.writes)
		h.writes = r.writes
		if e.fades.IsZero() {
			e.fades = now.Add(fadeAfter)
		}
	} else {
		h.writes = nil
	}
	if h.fade(now) {
		e.known[key] = h
	} else {
		delete(e.known, key)
	}
	return h
}

// say logs what became of a reconcile.
func (e *engine[T]) say(it *item, out outcome, failures int, took, retry time.Duration) {
	if out.gone || out.err == nil && !e.log.Enabled(out.trace, slog.LevelDebug) {
		return // what nobody reads is not made
	}
	log := e.log.With("object", it.key.String(), "causes", &it.causes, "took", took)
	switch stack := stackOf(out.err); {
	case out.err == nil:
		log.DebugContext(out.trace, "reconciled")
	case stack != "":
		log.ErrorContext(out.trace, "reconcile panicked",
			"error", out.err, "failures", failures, "retryIn", retry, "stack", stack)
	case IsTerminal(out.err):
		log.ErrorContext(out.trace, "reconcile failed; it is not tried again until something changes", "error", out.err)
	default:
		log.ErrorContext(out.trace, "reconcile failed", "error", out.err, "failures", failures, "retryIn", retry)
	}
}
