package lease

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/pintle-go/pintle/kube"
)

// ErrLost is wrapped by the error of [Lease.Run] when the lease was lost before
// the function ended, and is the cause of the end of the function's context.
var ErrLost = errors.New("the lease is lost")

// ErrUnfinished keeps [Lease.Run] from releasing the lease if the error of its
// function wraps it: something that the function started still runs and may act.
// The lease is not renewed either, so that other processes take it when it expires.
// The process should end.
var ErrUnfinished = errors.New("something that was started has not ended")

// ErrClaimed is the cause of the end of the function's context when a process with
// TakeOver asks for the lease.
var ErrClaimed = errors.New("another process claims the lease")

// Lease is what processes compete for. Client and Name are required; the zero
// value of the rest has defaults. Those who compete should have the same
// durations, but need not.
//
// The program needs the rights to get, list, watch and update the Lease, and to
// create Leases in its namespace.
type Lease struct {
	Client *kube.Client
	// Namespace of the Lease. Default: the client's, which is the pod's own.
	Namespace string
	// Name of the Lease.
	Name string
	// Identity names this process. No other may have it at the same time: one
	// that finds its own identity in the Lease takes it without waiting.
	// Default: the host's name and something random.
	Identity string

	// Duration is how long the lease lasts after each renewal: how long the
	// others wait for a holder that does not answer. At least a second; what is
	// written into the Lease is rounded up to seconds. Default: [DefaultDuration].
	Duration time.Duration
	// Renew is how often the holder renews it. A renewal that fails is tried
	// again sooner. Default: a fifth of Duration.
	Renew time.Duration
	// Margin is how long before its expiry the holder counts a lease that it
	// could not renew as lost. It covers what a request may take to arrive,
	// and how much faster the clocks of others may run. Default: a fifth of
	// Duration.
	Margin time.Duration

	// TakeOver has this process ask the holder to step down, by an annotation of the
	// Lease, and go on asking until it gets the lease. It is for a program that a
	// developer runs in place of the deployed one. A holder of this package stops
	// what it does in order, releases the lease, and takes it again when this process
	// has released it or has not renewed its claim for Duration. Another holder, such
	// as client-go's leader election or a process that has TakeOver itself, keeps the
	// lease.
	TakeOver bool

	// Logger gets who holds the lease, and what goes wrong. Default:
	// slog.Default().
	Logger *slog.Logger
	// OnChange, if it is set, is told who holds the lease, when that changes:
	// the holder's identity, empty if nobody does, and whether it is this
	// process, which it then still is or no longer. Calls do not overlap, and
	// Run waits for them. A panic of OnChange is logged and changes nothing.
	OnChange func(holder string, mine bool)

	// wall tells the time of day, in tests. Default: time.Now.
	wall func() time.Time
}

// Run waits until this process holds the lease and then calls f, whose context
// ends when ctx does, when the lease is lost, or when another process claims it. It
// returns when f has returned: f's error, or one that wraps [ErrLost], with f's if
// that says more. If ctx ends before the lease is held, f is not called and the error
// is nil.
//
// When f returns, also long after the end of ctx, the lease is renewed no more
// and given up, so that the next process starts within a second. f should have
// stopped all it started by then; what goes on and writes with f's context
// fails. A lost lease is not competed for again: the usual thing is to end the
// process, another is to call Run again.
//
// A claim (see TakeOver) does not end Run: if f returns nil after its context has
// ended with [ErrClaimed], or the context's error, the lease is released and Run waits
// for it again, to call f once more.
//
// f may write after ctx has ended, with the context that [Held] returns, for as
// long as the lease is held.
//
// The lease is not released if f panics, nor if its error wraps [ErrUnfinished].
func (l *Lease) Run(ctx context.Context, f func(context.Context) error) error {
	e, err := l.election()
	if err != nil {
		return fmt.Errorf("run election: %w", err)
	}
	defer e.apart.Close()
	for {
		held, err := e.acquire(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("acquire lease %s: %w", e.key, err)
		case held == nil:
			return nil
		case ctx.Err() != nil:
			e.release(ctx, held.lease)
			return nil
		}
		err = e.hold(ctx, held, f)
		switch {
		case !errors.Is(err, errSteppedDown):
			return err
		case ctx.Err() != nil:
			return nil
		}
	}
}

// DefaultDuration is client-go's too.
const DefaultDuration = 15 * time.Second

// election is one run of a lease, with all defaults filled in.
type election struct {
	Lease
	key kube.Key
	// apart is for the requests that must be answered in time.
	apart  *kube.Client
	leases kube.Resource[coordinationv1.Lease]
	// asked: the lease was asked for, and the answer was not seen. claims: there may be
	// a claim of this process.
	asked, claims bool

	told struct {
		sync.Mutex
		once   bool
		holder string
		mine   bool
	}
}

func (l *Lease) election() (*election, error) {
	e := &election{Lease: *l}
	switch {
	case l.Client == nil:
		return nil, errors.New("the lease has no client")
	case l.Name == "":
		return nil, errors.New("the lease has no name")
	}
	e.Namespace = cmp.Or(l.Namespace, l.Client.Namespace())
	e.Duration = cmp.Or(l.Duration, DefaultDuration)
	e.Renew = cmp.Or(l.Renew, e.Duration/5)
	e.Margin = cmp.Or(l.Margin, e.Duration/5)
	switch {
	case e.Duration < time.Second:
		return nil, fmt.Errorf("duration %s is under a second", e.Duration)
	case e.Renew < 0 || e.Margin < 0:
		return nil, errors.New("a duration is negative")
	case e.Renew+e.Margin >= e.Duration:
		return nil, fmt.Errorf("a lease of %s, renewed every %s, is lost at once with a margin of %s", e.Duration, e.Renew, e.Margin)
	}
	if e.Identity == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("make identity: %w", err)
		}
		e.Identity = host + "_" + strings.ToLower(rand.Text()[:10])
	}
	if e.Logger == nil {
		e.Logger = slog.Default()
	}
	e.key = kube.Key{Namespace: e.Namespace, Name: e.Name}
	e.Logger = e.Logger.With("lease", e.key.String())
	if e.wall == nil {
		e.wall = time.Now
	}
	var err error
	if e.apart, err = apart(l.Client); err != nil {
		return nil, fmt.Errorf("configure lease %s: %w", e.key, err)
	}
	e.leases = kube.For[coordinationv1.Lease](e.apart).In(e.Namespace)
	return e, nil
}

// heldKey finds, in the context of the function that [Lease.Run] calls, the
// context that ends with the lease.
type heldKey struct{}

// Held returns a context for work that may go on after the end of ctx, which is the
// context of the function that [Lease.Run] calls, or is derived from that. It has
// the values of ctx and ends when the lease is lost, with the cause [ErrLost], and
// when the function has returned. It never ends if ctx is not of such a function.
func Held(ctx context.Context) context.Context {
	held, ok := ctx.Value(heldKey{}).(context.Context)
	ctx = context.WithoutCancel(ctx)
	if !ok {
		return ctx
	}
	ctx, cancel := context.WithCancelCause(ctx)
	context.AfterFunc(held, func() { cancel(context.Cause(held)) })
	return ctx
}

// tell reports who holds the lease, if that is news.
func (e *election) tell(holder string, mine bool) {
	e.told.Lock()
	defer e.told.Unlock()
	if e.told.once && e.told.holder == holder && e.told.mine == mine {
		return
	}
	first := !e.told.once
	e.told.once, e.told.holder, e.told.mine = true, holder, mine
	switch {
	case mine:
		e.Logger.Info("this process holds the lease", "identity", holder)
	case holder == e.Identity && !first:
		e.Logger.Info("this process can no longer be sure of the lease", "identity", holder)
	case holder != "":
		e.Logger.Info("another process holds the lease", "holder", holder)
	}
	if e.OnChange != nil {
		e.change(holder, mine)
	}
}

// change calls OnChange. If that panics or ends its goroutine, who holds the lease is as
// it is: renewals must go on. So it has a goroutine of its own.
func (e *election) change(holder string, mine bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		returned := false
		defer func() {
			if p := recover(); !returned {
				e.Logger.Error("OnChange panicked, or ended its goroutine", "panic", p, "stack", string(debug.Stack()))
			}
		}()
		e.OnChange(holder, mine)
		returned = true
	}()
	<-done
}

// apart returns a client like c with connections of its own, which speak HTTP/1.1:
// each carries one request at a time, and is closed when that is given up.
//
// The requests of c share one HTTP/2 connection. If a router drops its packets, they
// all hang until pings have stayed unanswered, which takes 45 seconds: the end of a
// request does not end the connection. A lease would be lost by then.
func apart(c *kube.Client) (*kube.Client, error) {
	config := c.Config()
	config.Rest.NextProtos = []string{"http/1.1"}
	return config.Connect()
}
