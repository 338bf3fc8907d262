package controller

import (
	"context"
	"net"
	"time"
)

// drainTime is how long the address stays open after a stop began in a pod. Endpoints and
// load balancers name the pod for a few seconds after it was told to end.
const drainTime = 5 * time.Second

// around is what a program finds around it.
type around struct {
	inPod  bool
	listen func(ctx context.Context, address string) (net.Listener, error)
}

func listenTCP(ctx context.Context, address string) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, "tcp", address)
}

// drain has what decides how long the address of a program stays open after a stop began.
// In the meantime the program is not ready, answers hooks and routes, and asks the clients
// to use other connections. Its work and its lease have their own end, which does not wait
// for the drain.
type drain struct {
	inPod  bool          // others may send requests because endpoints name the pod
	called bool          // others send requests besides probes and scrapes
	failed bool          // the process should end because its work has failed
	grace  time.Duration // the drain is a part of it
}

// lasts returns the duration of the drain.
func (d drain) lasts() time.Duration {
	if !d.inPod || !d.called || d.failed {
		return 0
	}
	return min(drainTime, d.grace)
}

// left returns how much of the drain is left at a time.
func (d drain) left(began, now time.Time) time.Duration {
	return max(0, d.lasts()-now.Sub(began))
}

// called reports whether the program has hooks or routes.
func (p *program) called() bool {
	for _, r := range p.runners {
		if len(r.hooks()) > 0 {
			return p.Address != ""
		}
	}
	return p.Address != "" && len(p.Routes) > 0
}

// noteStop returns a channel that gets the time at which ctx ends.
func noteStop(ctx context.Context) <-chan time.Time {
	began := make(chan time.Time, 1)
	context.AfterFunc(ctx, func() { began <- time.Now() })
	return began
}

// drain waits until the address may be closed. Err is the error of the program's work,
// which has ended. The stop began at a time that can be received.
func (p *program) drain(began <-chan time.Time, err error) {
	d := drain{inPod: p.around.inPod, called: p.called(), failed: err != nil, grace: p.Grace}
	if d.lasts() == 0 {
		return
	}
	if left := d.left(<-began, time.Now()); left > 0 {
		p.Logger.Info("the work has stopped; requests are still answered", "for", left.Round(time.Millisecond))
		time.Sleep(left)
	}
}
