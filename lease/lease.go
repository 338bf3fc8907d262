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
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pintle-go/pintle/kube"
)

// ErrLost is wrapped by the error of [Lease.Run] if the lease was lost before the
// function ended. It is also the cause of the function's context in that case.
var ErrLost = errors.New("the lease was lost")

// ErrUnfinished tells [Lease.Run] not to release the lease. A function returns an error
// that wraps it when something that it started still runs and may act. The lease is not
// renewed either, so other processes take it when it expires. The process should end.
var ErrUnfinished = errors.New("work that was started is still running")

// errClaimed is the cause of the function's context if it ended because a process with
// TakeOver asks for the lease.
var errClaimed = errors.New("another process claims the lease")

// Lease describes the lease that processes compete for. Client and Name are required;
// every other field has a default. The competing processes should use the same durations,
// but need not. The counterparts are client-go's leaderelection.LeaderElectionConfig and
// the LeaderElection options of controller-runtime's manager.
//
// The program needs the rights to get, list, watch and update the Lease, and to create
// Leases in its namespace.
type Lease struct {
	Client *kube.Client
	// Namespace of the Lease. Default: the client's namespace, which in a pod is the
	// pod's own.
	Namespace string
	// Name of the Lease.
	Name string
	// Identity names this process. No other process may have the same identity at the
	// same time: a process that finds its own identity in the Lease takes the lease
	// without waiting. Default: the host's name and a random suffix. Its counterpart is
	// Identity of client-go's resourcelock.ResourceLockConfig.
	Identity string

	// Duration is how long the lease lasts after each renewal, and so how long other
	// processes wait for a holder that does not answer. It is at least one second. The
	// Lease object holds it rounded up to seconds. client-go calls it LeaseDuration.
	// Default: 15 seconds, as in controller-runtime.
	Duration time.Duration
	// Renew is the interval at which the holder renews the lease. A failed renewal is
	// retried sooner. client-go calls it RetryPeriod. Default: a fifth of Duration.
	Renew time.Duration
	// Margin is how long before the expiry the holder counts a lease as lost that it
	// could not renew. It covers the time that a request takes to arrive, and the faster
	// clocks of other processes. Default: a fifth of Duration.
	Margin time.Duration

	// TakeOver has this process ask the holder to step down, by an annotation of the
	// Lease, and go on asking until it gets the lease. It is for a program that a
	// developer runs in place of the deployed one. A holder that uses this package stops
	// its work in order and releases the lease. It takes the lease again when this
	// process has released it or has not renewed its claim for Duration. Other holders
	// keep the lease: client-go's leader election, and a process that has TakeOver
	// itself.
	TakeOver bool

	// Logger gets the changes of the holder, and failures. Default: slog.Default(). Its
	// counterpart is Logger of controller-runtime's manager.Options.
	Logger *slog.Logger
	// OnChange, if it is set, is called when the holder changes. Its arguments are the
	// holder's identity, empty if the lease has no holder, and whether this process holds
	// the lease. It is also called when this process stops holding the lease. Calls do
	// not overlap, and Run waits for them. A panic of OnChange is logged and changes
	// nothing. The counterpart is OnNewLeader in client-go's LeaderCallbacks.
	OnChange func(holder string, mine bool)

	// wall returns the time of day. Tests set it. Default: time.Now.
	wall func() time.Time
}

// Run waits until this process holds the lease and then calls f. The context of f ends
// when ctx ends, when the lease is lost, or when another process claims it. Run returns
// after f has returned. It returns f's error, or an error that wraps [ErrLost], together
// with f's if f's says more. If ctx ends before this process holds the lease, f is not
// called and the error is nil. The counterpart is RunOrDie of client-go's leaderelection.
//
// When f returns, even long after the end of ctx, Run stops renewing the lease and gives
// it up, so that the next process starts within a second. By then f should have stopped
// everything that it started. Writes that are still made with f's context fail. Run does
// not compete again for a lost lease: usually the process ends, but it may also call Run
// again.
//
// A claim (see TakeOver) does not end Run. If the context of f has ended because
// of a claim and f then returns nil, or the context's error or cause, Run releases the
// lease, waits for it again and calls f once more.
//
// After ctx has ended, f may write with the context that [Held] returns, for as long as
// the lease is held.
//
// The lease is not released if f panics, or if f's error wraps [ErrUnfinished].
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

// election is one run of a lease, with all defaults filled in.
type election struct {
	Lease
	key kube.Key
	// apart sends the requests that must be answered in time.
	apart  *kube.Client
	leases kube.Resource[coordinationv1.Lease]
	// asked reports that the lease was requested and the answer was not seen. claims
	// reports that a claim of this process may exist.
	asked, claims bool

	told struct {
		sync.Mutex
		once   bool
		holder string
		mine   bool
	}
}

// Validate returns the mistake in the names or in the times for which Run would refuse the
// lease, or nil. The lease needs no client for that.
func (l Lease) Validate() error {
	l = l.timed()
	switch {
	case l.Name == "":
		return errors.New("the lease has no name")
	case validation.IsDNS1123Subdomain(l.Name) != nil:
		return fmt.Errorf("%q cannot be the name of a lease", l.Name)
	case l.Namespace != "" && validation.IsDNS1123Label(l.Namespace) != nil:
		return fmt.Errorf("%q cannot be the namespace of a lease", l.Namespace)
	case l.Duration < time.Second:
		return fmt.Errorf("duration %s is under a second", l.Duration)
	case l.Renew < 0 || l.Margin < 0:
		return fmt.Errorf("duration %s, renew %s or margin %s is negative", l.Duration, l.Renew, l.Margin)
	case l.Renew+l.Margin >= l.Duration:
		return fmt.Errorf(
			"a lease of %s, renewed every %s, is lost at once with a margin of %s", l.Duration, l.Renew, l.Margin,
		)
	}
	return nil
}

// timed returns a lease with the default times.
func (l Lease) timed() Lease {
	l.Duration = cmp.Or(l.Duration, 15*time.Second)
	l.Renew = cmp.Or(l.Renew, l.Duration/5)
	l.Margin = cmp.Or(l.Margin, l.Duration/5)
	return l
}

func (l *Lease) election() (*election, error) {
	if l.Client == nil {
		return nil, errors.New("the lease has no client")
	}
	if err := l.Validate(); err != nil {
		return nil, err
	}
	e := &election{Lease: l.timed()}
	e.Namespace = cmp.Or(l.Namespace, l.Client.Namespace())
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

// heldKey is the key of a value in the context of the function that [Lease.Run] calls.
// The value is the context that ends with the lease.
type heldKey struct{}

// Held returns a context for work that may go on after the end of ctx. ctx is the context
// of the function that [Lease.Run] calls, or is derived from it. The returned context has
// the values of ctx. It ends when the lease is lost, with the cause [ErrLost], and when
// the function has returned. If ctx does not come from such a function, the returned
// context never ends.
func Held(ctx context.Context) context.Context {
	until, ok := ctx.Value(heldKey{}).(context.Context)
	if !ok {
		return context.WithoutCancel(ctx)
	}
	return heldContext{until, ctx}
}

// heldContext ends with one context and has the values of another. It is registered with
// neither: a program may make any number of them during a term.
type heldContext struct {
	context.Context                 //nolint:containedctx // it is a context: this one ends with the lease
	values          context.Context //nolint:containedctx // see above
}

// Value also lets package context find the one context that ends. Contexts that are derived
// from c then cost no goroutine, and have its cause.
func (c heldContext) Value(key any) any {
	if end, ok := c.Context.Value(key).(context.Context); ok && end == c.Context {
		return end
	}
	return c.values.Value(key)
}

// tell reports the holder of the lease if it has changed.
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
		e.Logger.Info("this process may have lost the lease", "identity", holder)
	case holder != "":
		e.Logger.Info("another process holds the lease", "holder", holder)
	}
	if e.OnChange != nil {
		e.change(holder, mine)
	}
}

// change calls OnChange in a goroutine of its own. If OnChange panics or ends its
// goroutine, the holder stays the same, and renewals must go on.
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

// apart returns a client like c with connections of its own. These speak HTTP/1.1: each
// carries one request at a time, and is closed when that request is given up.
//
// The requests of c share one HTTP/2 connection. If a router drops its packets, all of
// these requests hang until pings have stayed unanswered, which takes 45 seconds, because
// the end of a request does not close the connection. By then the lease would be lost.
func apart(c *kube.Client) (*kube.Client, error) {
	config := c.Config()
	config.Rest.NextProtos = []string{"http/1.1"}
	return config.Connect()
}
