package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pintle-go/pintle/cluster/internal/state"
	"github.com/pintle-go/pintle/cluster/internal/supervisor"
)

// A step is what up does about a cluster that may run.
type step string

const (
	begin  step = "start it"
	wait   step = "wait"
	use    step = "report it"
	giveUp step = "give up"
)

// next returns the step for what up sees: whether a supervisor holds the lock, and the phase
// or the error that it answers with. A held lock tells only that the supervisor lives.
func next(locked bool, phase string, answer error) step {
	switch {
	case !locked:
		return begin
	case errors.Is(answer, context.DeadlineExceeded):
		return giveUp
	case answer == nil && phase == supervisor.Ready:
		return use
	default: // it starts, it stops, or it does not listen yet or any more
		return wait
	}
}

// errSilent reports that a supervisor neither gets ready nor ends.
var errSilent = errors.New("the cluster's supervisor does not answer: end it first, with down")

// settled waits until the cluster is ready, and returns its status, or until it has ended.
// Then the status is nil.
func settled(ctx context.Context, say sayer, dir state.Dir) (*supervisor.Status, error) {
	client, heard, said := supervisor.NewClient(dir), time.Now(), ""
	for {
		locked, err := dir.Supervised()
		if err != nil {
			return nil, err
		}
		var s supervisor.Status
		var answer error
		if locked {
			s, answer = client.Status(ctx)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if s.Phase == supervisor.Starting { // it limits the time itself
			heard = time.Now()
		}
		switch next(locked, s.Phase, answer) {
		case begin:
			return nil, nil
		case use:
			return &s, nil
		case giveUp:
			return nil, fmt.Errorf("%w (%w)", errSilent, answer)
		case wait:
			if time.Since(heard) > downLimit {
				return nil, errors.Join(fmt.Errorf("%w (phase %q)", errSilent, s.Phase), answer)
			}
		}
		if s.Phase != said && s.Phase != "" {
			say("the cluster is %s: waiting", s.Phase)
			said = s.Phase
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}
