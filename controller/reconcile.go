package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/pintle-go/pintle/event"
	"github.com/pintle-go/pintle/internal/requesttrace"
	"github.com/pintle-go/pintle/internal/workmetrics"
	"github.com/pintle-go/pintle/internal/written"
	"github.com/pintle-go/pintle/kube"
)

// errTimeout is the cause of the end of a reconcile's context if the reconcile took
// longer than the controller's Timeout. The error of such a reconcile wraps it.
var errTimeout = errors.New("the reconcile took too long")

// run is one reconcile. It is a value of the reconcile's context.
type run struct {
	key    kube.Key
	causes causes
	log    *slog.Logger // the controller's
}

type runKey struct{}

// logger makes the logger only when it is called, because most reconciles log nothing.
func (r *run) logger() *slog.Logger { return r.log.With("object", r.key.String()) }

// Logger returns the logger of the reconcile that ctx belongs to. Its lines name the
// controller and the object. Outside a reconcile it returns slog.Default(). In
// controller-runtime this is log.FromContext.
func Logger(ctx context.Context) *slog.Logger {
	if r, ok := ctx.Value(runKey{}).(*run); ok {
		return r.logger()
	}
	return slog.Default()
}

// outcome is the result of a turn.
type outcome struct {
	gone bool // there is no such object
	// unseen is the failure of a turn whose object is gone, as the server says. If the
	// server is right, the store will show that too. If not, because a list came from a
	// replica that is behind, the turn is tried again.
	unseen error
	action Action
	err    error
}

// attempt is a turn of a key in a controller of type T.
type attempt[T any] struct {
	*turn
	run run
	o   *T // nil: the object was not read
	// unread is an object that does not decode. It has its metadata.
	unread *T
	out    outcome
	wrote  wrote
	start  time.Time                 // start of the reconcile itself, zero if there was none
	cause  error                     // cause of the end of the reconcile's context
	span   func(error, ...slog.Attr) // ends the span; nil: there is none
	// trace is the context of the span, or of the turn if there is none. It is for
	// log lines and reports.
	trace context.Context //nolint:containedctx // it ends with the turn, as the attempt does
}

// serve does the given turn and then others until there are no more. A turn that panics,
// or that ends this goroutine by [runtime.Goexit], has failed: another goroutine finishes
// that turn and takes the place of this one.
func (e *engine[T]) serve(ctx context.Context, d *dispatcher, t *turn, working *sync.WaitGroup) {
	var a *attempt[T]
	defer func() {
		if a != nil {
			broken := a
			broken.out.err = brokenBy(recover())
			working.Go(func() {
				e.finish(ctx, broken)
				d.results <- broken.turn
				if next := <-d.turns; next != nil {
					e.serve(ctx, d, next, working)
				}
			})
		}
	}()
	for ; t != nil; t = <-d.turns {
		a = &attempt[T]{turn: t, run: run{key: t.key, causes: t.causes, log: e.log}}
		e.do(ctx, a)
		done := a
		a = nil
		e.finish(ctx, done)
		d.results <- t
	}
}

// do reads the object of a turn and calls the controller's functions for it. do panics,
// or ends its goroutine, if one of these functions does.
func (e *engine[T]) do(ctx context.Context, a *attempt[T]) {
	a.trace = written.With(context.WithValue(ctx, runKey{}, &a.run), func(w written.Write) { e.note(a, w) })
	end := time.Now().Add(e.Timeout)
	limited := func(ctx context.Context) (context.Context, func()) {
		ctx, cancel := context.WithDeadlineCause(ctx, end, e.late)
		return ctx, func() {
			a.cause = cmp.Or(a.cause, context.Cause(ctx))
			cancel()
		}
	}
	ctx, done := limited(a.trace)
	defer done()
	if a.out.err = e.tellRemoved(ctx, a); a.out.err != nil {
		return
	}
	o, err := kube.Get[T](ctx, e.objects, a.key)
	if e.outside != nil && apierrors.IsNotFound(err) {
		o, err = e.departed(ctx, a.key, err)
	}
	switch {
	case o != nil && e.ignores(o), apierrors.IsNotFound(err):
		a.out.gone = true
		return
	case err != nil && o != nil:
		a.unread, err = o, unread(o, err)
	}
	if o != nil {
		a.uid, a.read = meta(o).GetUID(), meta(o).GetResourceVersion()
	}
	a.start = time.Now()
	if err != nil {
		a.out.err = err
		return
	}
	a.o = o
	if e.trace != nil {
		// The span's context outlives the reconcile's Timeout: failures are reported with
		// it.
		traced, span := e.trace(a.trace, "reconcile "+e.Name,
			slog.String("controller", e.Name), slog.String("namespace", a.key.Namespace), slog.String("name", a.key.Name),
			slog.String("uid", string(meta(o).GetUID())), slog.String("causes", a.causes.String()))
		a.trace, a.span = requesttrace.With(traced, e.traceRequest), span
		spanned, done := limited(a.trace)
		defer done()
		ctx = spanned
	}
	a.out = e.turn(ctx, o)
}

// unread returns the error of an object that does not decode. Only a change of the
// object mends it. While the error holds up a deletion, it is reported again and again.
func unread[T any](o *T, err error) error {
	if meta(o).GetDeletionTimestamp() == nil {
		return Terminal(err)
	}
	return fmt.Errorf("the finalizer stays until the object can be read and cleaned up: %w", err)
}

// traceRequest makes a span of a request.
func (e *engine[T]) traceRequest(
	ctx context.Context, r requesttrace.Request,
) (context.Context, func(code int, err error)) {
	ctx, end := e.trace(ctx, strings.TrimSpace(r.Verb+" "+r.Kind),
		slog.String("verb", r.Verb), slog.String("method", r.Method), slog.String("kind", r.Kind),
		slog.String("namespace", r.Namespace), slog.String("name", r.Name), slog.String("subresource", r.Subresource))
	return ctx, func(code int, err error) {
		if err == nil && code >= http.StatusBadRequest {
			err = fmt.Errorf("the server answered with status %d", code)
		}
		end(err, slog.Int("code", code))
	}
}

// finish ends a turn. A panic of the program's error or trace functions is a failure too:
// it must not end the worker.
func (e *engine[T]) finish(ctx context.Context, a *attempt[T]) {
	if a.out.err != nil || a.span != nil {
		if broken := unreadable(a.out.err); broken != nil {
			a.out.err = broken
		}
		if err := protect(func() error { e.review(ctx, a); return nil }); err != nil {
			a.out = outcome{err: err}
		}
	}
	e.conclude(ctx, a)
}

// review ends the span of a turn, and reports a failure.
func (e *engine[T]) review(ctx context.Context, a *attempt[T]) {
	if a.out.err != nil && a.cause != nil && !errors.Is(a.out.err, a.cause) {
		a.out.err = fmt.Errorf("%w: %w", a.cause, a.out.err)
	}
	if a.span != nil {
		e.guard("Trace", func() error { a.span(a.out.err); return nil })
	}
	switch {
	case a.o != nil && e.isGone(a.trace, a.o, a.out.err):
		e.log.DebugContext(a.trace, "reconcile ended because its object was deleted",
			"object", a.key.String(), "error", a.out.err)
		a.out, a.start = outcome{unseen: a.out.err}, time.Time{}
	case ctx.Err() == nil && a.out.err != nil:
		e.report(a, a.out.err)
	}
}

// isGone reports that a reconcile has failed because its object was deleted meanwhile.
// The object may have been recreated under its name. isGone asks the server, because the
// watch may be late.
func (e *engine[T]) isGone(ctx context.Context, o *T, failure error) bool {
	if !apierrors.IsNotFound(failure) && !apierrors.IsConflict(failure) {
		return false
	}
	ctx, cancel := context.WithTimeoutCause(ctx, reportTime, errTimeout)
	defer cancel()
	is, err := lookUp(ctx, e.For, kube.KeyOf(meta(o)))
	return err == nil && (is == nil || meta(is).GetUID() != meta(o).GetUID())
}

// lookUp asks the server for an object of a controller, and returns nil if there is none.
// It lists the one name, because a controller needs the right to list anyway, but not the
// right to get. It also finds an object that has left the handle's selectors. An object that
// does not decode is returned with the error.
func lookUp[T any](ctx context.Context, of kube.Handle[T], key kube.Key) (*T, error) {
	handle := kube.Wide(of).Fielded(fields.OneTermEqualSelector("metadata.name", key.Name).String())
	if key.Namespace != "" {
		handle = handle.In(key.Namespace)
	}
	for o, err := range handle.List(ctx) {
		switch {
		case err != nil:
			return o, err
		case meta(o).GetName() == key.Name: // some servers ignore field selectors
			return o, nil
		}
	}
	return nil, nil
}

// reportTime is how long the report of a failure may take. It follows a reconcile that
// may have used all of its Timeout.
const reportTime = 10 * time.Second

// report tells Failed and the event recorder that a reconcile has failed. It has time of
// its own, so that it can do so even after a reconcile that used all of its Timeout.
func (e *engine[T]) report(a *attempt[T], failure error) {
	if e.Failed != nil && a.o != nil {
		limited, cancel := context.WithTimeoutCause(a.trace, reportTime, errTimeout)
		defer cancel()
		err := protect(func() error { return e.Failed(limited, a.o, failure) })
		switch {
		case err == nil:
		case e.isGone(a.trace, a.o, err):
			return // nobody looks for a report about the object any more
		default:
			a.run.logger().WarnContext(a.trace, "cannot report the failure", "error", err)
		}
	}
	if about := e.regarding(a); about != nil {
		e.events.Failure(about, a.start, "ReconcileFailed", failure)
	}
}

// regarding returns the object that an event is about, nil if none is recorded.
func (e *engine[T]) regarding(a *attempt[T]) event.Object {
	read := cmp.Or(a.o, a.unread)
	about, ok := any(read).(event.Object)
	if !ok || read == nil || e.events == nil {
		return nil
	}
	return about
}

// guard calls one of the program's functions, and logs a panic in it.
func (e *engine[T]) guard(name string, f func() error) {
	if err := protect(f); err != nil {
		e.log.Error("a function of the controller failed", "function", name, "error", err, "stack", stackOf(err))
	}
}

// ignores reports that an object is being deleted and that the controller has nothing to
// clean up.
func (e *engine[T]) ignores(o *T) bool {
	acc := meta(o)
	return acc.GetDeletionTimestamp() != nil && !e.holds(acc)
}

// meta returns the metadata of an object. Package kube makes sure that every type of a
// handle has metadata.
func meta[T any](o *T) metav1.Object { return any(o).(metav1.Object) }

// turn reconciles an object. If the object is being deleted, turn cleans it up. It adds
// the finalizer before, and removes it after.
func (e *engine[T]) turn(ctx context.Context, o *T) (out outcome) {
	if meta(o).GetDeletionTimestamp() != nil {
		if e.Cleanup != nil {
			out.action, out.err = e.Cleanup(ctx, o)
		}
		if out.err == nil && out.action == Done {
			out.unseen, out.err = e.release(ctx, o)
		}
		return out
	}
	if !e.ready(meta(o)) {
		held, err := e.hold(ctx, o)
		switch {
		case err != nil:
			return outcome{err: err}
		case held == nil:
			return outcome{unseen: errNoObject}
		case meta(held).GetDeletionTimestamp() != nil:
			return outcome{} // the object is being deleted: a change will follow
		}
		*o = *held
	}
	out.action, out.err = e.Reconcile(ctx, o)
	return out
}

// count counts a reconcile in the metrics.
func (e *engine[T]) count(a *attempt[T], now time.Time) {
	out, took := a.out, time.Duration(0)
	if !a.start.IsZero() {
		took = now.Sub(a.start)
	}
	result := workmetrics.Success
	switch {
	case out.err != nil:
		result = workmetrics.Failure
	case out.action > 1:
		result = workmetrics.RequeueAfter
	case out.action == 1:
		result = workmetrics.Requeue
	}
	e.counts.Reconciled(result, took)
	if stackOf(out.err) != "" {
		e.counts.Panicked()
	}
	if IsTerminal(out.err) {
		e.counts.Terminal()
	}
}

// conclude sets the request that follows a turn, and logs the turn's outcome.
func (e *engine[T]) conclude(ctx context.Context, a *attempt[T]) {
	t, now := a.turn, time.Now()
	t.ended = now
	if !a.start.IsZero() || a.out.err != nil {
		e.count(a, now)
	}
	t.absent = a.out.gone
	t.failed = a.out.err != nil || a.out.unseen != nil
	if t.failed {
		t.failures++
	} else {
		t.failures = 0
	}
	t.next = e.next(a, now)
	took := now.Sub(t.since)
	e.counts.Worked(took)
	if a.out.err != nil && ctx.Err() != nil {
		t.next = nil
		e.log.InfoContext(a.trace, "reconcile was interrupted", "object", t.key.String(), "error", a.out.err)
		return
	}
	e.say(a, took, now)
	if ctx.Err() == nil {
		e.sayHot(a, now)
	}
}

// next returns the request that follows a turn, nil if none does.
func (e *engine[T]) next(a *attempt[T], now time.Time) *request {
	var next *request
	retry := func(delay time.Duration, err error) {
		next = &request{due: now.Add(delay), cause: Cause{Reason: Retried, Err: err}, priority: a.priority}
	}
	switch {
	case a.out.err != nil && !IsTerminal(a.out.err):
		e.counts.Retried()
		delay := e.Backoff.delay(a.failures, a.out.err)
		if asked := time.Duration(a.out.action); asked > 0 {
			delay = min(delay, max(asked, e.Backoff.Min))
		}
		retry(delay, a.out.err)
	case a.out.unseen != nil:
		retry(e.Backoff.delay(a.failures, a.out.unseen), a.out.unseen)
	case a.out.gone:
		return nil
	case a.out.err == nil && a.out.action > 0:
		due := now.Add(time.Duration(a.out.action))
		next = &request{due: due, cause: Cause{Reason: Requested, due: due}, priority: a.priority}
	case e.Resync > 0 && (a.out.err != nil || a.out.action != Await): // beside a terminal error, no action counts
		due := now.Add(e.Resync - e.Resync/10 + rand.N(e.Resync/5+1))
		next = &request{due: due, cause: Cause{Reason: Resynced, due: due}, priority: low}
	default:
		return nil
	}
	next.key, next.cause.of = a.key, markOf(objectState{a.uid, a.read})
	if max(next.due.Sub(now), e.MinInterval) < hotPause {
		next.cause.depth = e.depthOf(a) + 1
	}
	e.prioritize(next)
	return next
}

// say logs the outcome of a reconcile.
func (e *engine[T]) say(a *attempt[T], took time.Duration, now time.Time) {
	out, failures, retry := a.out, a.failures, time.Duration(0)
	if a.next != nil {
		retry = a.next.due.Sub(now)
	}
	if out.gone || out.unseen != nil || out.err == nil && !e.log.Enabled(a.trace, slog.LevelDebug) {
		return // a line that nobody reads is not built
	}
	log := e.log.With("object", a.key.String(), "causes", &a.causes, "took", took)
	switch stack := stackOf(out.err); {
	case out.err == nil:
		log.DebugContext(a.trace, "reconciled")
	case stack != "":
		log.ErrorContext(a.trace, "reconcile panicked",
			"error", out.err, "failures", failures, "retryIn", retry, "stack", stack)
	case IsTerminal(out.err):
		log.ErrorContext(a.trace, "reconcile failed; it is not retried until something changes", "error", out.err)
	default:
		log.ErrorContext(a.trace, "reconcile failed", "error", out.err, "failures", failures, "retryIn", retry)
	}
}
