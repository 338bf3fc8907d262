package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/lease"
)

// errGrace is the cause of the end of a reconcile's context if the reconcile took longer
// than Grace after the program stopped or gave the lease to another process.
var errGrace = errors.New("the grace period is over")

// afterGrace is how long Run waits for a reconcile whose context has ended because
// the grace period is over.
const afterGrace = 5 * time.Second

// activity is a controller or a runnable of the program.
type activity struct {
	kind, name string // as in controller "echo"
	// run returns when the activity has ended. The activity begins to stop when ctx ends.
	// Work under way may go on until work ends.
	run func(ctx, work context.Context) error
	// busy returns the keys of the objects that are being reconciled. It may be nil.
	busy func() []kube.Key
	// stopped logs that the activity has ended. It may be nil.
	stopped func()
}

func (a activity) String() string { return fmt.Sprintf("%s %q", a.kind, a.name) }

// ending is an activity that has ended.
type ending struct {
	of  int
	err error
}

// activities returns the activities that run together.
func activities(runners []runner, runnables []Runnable, catchUp bool) (all []activity) {
	for _, r := range runners {
		all = append(all, activity{
			kind: "controller", name: r.name(),
			run:  func(ctx, work context.Context) error { r.run(ctx, work, catchUp); return nil },
			busy: r.busy, stopped: r.stopped,
		})
	}
	for _, r := range runnables {
		all = append(all, activity{
			kind: "runnable", name: r.Name,
			run: func(ctx, _ context.Context) error { return protect(func() error { return r.Run(ctx) }) },
		})
	}
	return all
}

// together runs activities until ctx ends, or until one of them fails: then it returns
// the error. When the activities stop, their work under way goes on for the grace period
// at most, and only while the lease is held. An activity that has not ended some time
// after that is left behind. Then together returns an error that wraps
// [lease.ErrUnfinished] and names the activity. For a lost lease this time is the margin,
// after which another process may act.
func (p *program) together(ctx context.Context, all []activity) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	held := lease.Held(ctx)
	work, cut := context.WithCancelCause(held)
	defer cut(nil)

	ended := make(chan ending, len(all)) // room for all: an activity that was left behind waits for no reader
	left := make(map[int]activity)
	for i, a := range all {
		left[i] = a
		go func() { ended <- ending{i, a.run(ctx, work)} }()
	}
	var failed error
	var patience <-chan time.Time
	stop, lost := ctx.Done(), held.Done()
	stopping := func() {
		stop = nil
		if held.Err() == nil && len(left) > 0 {
			p.Logger.Info("stopping", "grace", p.Grace, "because", context.Cause(ctx))
			patience = time.After(p.graceAfter(context.Cause(ctx)))
		}
	}
	for len(left) > 0 || stop != nil {
		select {
		case end := <-ended: // perhaps by itself: a runnable may return
			if stop != nil && ctx.Err() != nil {
				stopping() // the log says so before it says that an activity has stopped
			}
			a := left[end.of]
			delete(left, end.of)
			if a.stopped != nil {
				a.stopped()
			}
			if end.err != nil && !errors.Is(end.err, context.Cause(ctx)) && !errors.Is(end.err, ctx.Err()) {
				failed = errors.Join(failed, fmt.Errorf("%s: %w", a, end.err))
				fail(failed)
			}
		case <-stop:
			stopping()
		case <-lost: // work has ended with the lease
			lost = nil
			patience = time.After(p.Lease.Margin) // then another process may take the lease
		case <-patience:
			if work.Err() != nil {
				return errors.Join(failed, unfinished(left))
			}
			p.logCut(left)
			cut(errGrace)
			patience = time.After(afterGrace)
		}
	}
	return failed
}

// graceAfter returns the grace period of a stop. There is none once Run has left a
// goroutine behind, because the process should end.
func (p *program) graceAfter(cause error) time.Duration {
	if errors.Is(cause, lease.ErrUnfinished) {
		return 0
	}
	return p.Grace
}

// logCut logs the activities that take longer than the grace period.
func (p *program) logCut(left map[int]activity) {
	for _, a := range left {
		if a.busy == nil {
			p.Logger.Warn("a runnable takes longer than the grace period", "name", a.name)
			continue
		}
		for _, key := range a.busy() {
			p.Logger.Warn("a reconcile takes longer than the grace period: its context is canceled",
				"controller", a.name, "object", key.String())
		}
	}
}

// unfinished returns an error that names the activities that have not ended.
func unfinished(left map[int]activity) error {
	var failed []error
	for _, a := range left {
		var keys []string
		if a.busy != nil {
			for _, key := range a.busy() {
				keys = append(keys, key.String())
			}
		}
		if len(keys) == 0 {
			failed = append(failed, fmt.Errorf("stop %s: %w", a, lease.ErrUnfinished))
			continue
		}
		failed = append(failed, fmt.Errorf("stop %s: the reconcile of %s: %w", a, strings.Join(keys, ", "),
			lease.ErrUnfinished))
	}
	return errors.Join(failed...)
}
