package controller

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pintle-go/pintle/event"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/lease"
	"github.com/pintle-go/pintle/metrics"
)

// Options are what the controllers of a program have in common. The zero value
// runs them without an HTTP port and without a lease.
type Options struct {
	// Lease, if it has a name, is held while controllers run: of several
	// processes one reconciles, the others keep their stores filled and wait.
	// Its client is that of the first controller if it has none.
	Lease lease.Lease
	// Grace is how long reconciles that are running may go on after the end of
	// Run's context, until their own contexts end too. Default: 20 seconds, less
	// than the 30 that a pod is given.
	Grace time.Duration

	// Address is what to listen on for health, readiness, metrics and hooks:
	// ":8080" is all of the machine's addresses. Default: none. See serve.go.
	Address string
	// TLS, if it is set, makes it HTTPS. It must have a certificate.
	TLS *tls.Config
	// Authorize has /metrics and /debug/pprof/ ask for a bearer token that the
	// cluster knows and whose user it allows to get the path, as a ClusterRole with
	// nonResourceURLs does. It needs the right to create tokenreviews and
	// subjectaccessreviews. Without TLS whoever sees the traffic sees the tokens.
	Authorize bool
	// Profiles, if it is set, answers what is under /debug/pprof/, as the handler of
	// package profile does.
	Profiles http.Handler
	// Metrics get those of the controllers and their stores, and are served at
	// /metrics. Default: new ones, which also count the requests of the
	// controllers' clients. What their Err says before the controllers start, Run
	// returns.
	Metrics *metrics.Metrics
	// Logger gets what happens. Default: slog.Default().
	Logger *slog.Logger
	// Events, if it is set, gets a warning for every reconcile that fails, which
	// shows in kubectl describe. Run runs it; its Client is that of the first
	// controller if it has none.
	Events *event.Recorder
	// Trace, if it is set, makes a span of every reconcile, and below it one of
	// every request that is made with the reconcile's context.
	Trace TraceFunc
}

// TraceFunc begins a span, in a context derived from ctx, and returns a function
// that ends it, with what is known by then. With OpenTelemetry it is:
//
//	func(ctx context.Context, name string, attrs ...slog.Attr) (context.Context, func(error, ...slog.Attr)) {
//		ctx, span := tracer.Start(ctx, name)
//		for _, a := range attrs {
//			span.SetAttributes(attribute.String(a.Key, a.Value.String()))
//		}
//		return ctx, func(err error, attrs ...slog.Attr) {
//			for _, a := range attrs {
//				span.SetAttributes(attribute.String(a.Key, a.Value.String()))
//			}
//			if err != nil {
//				span.RecordError(err)
//				span.SetStatus(codes.Error, err.Error())
//			}
//			span.End()
//		}
//	}
type TraceFunc func(ctx context.Context, name string, attrs ...slog.Attr) (context.Context, func(error, ...slog.Attr))

// ErrGrace is the cause of the end of the context of a reconcile that took longer
// than Grace to end when the program was told to stop.
var ErrGrace = errors.New("the program stops")

// Run runs controllers until ctx ends, and returns nil then. It returns an error
// at once if a controller is not well configured or the address cannot be
// listened on (if a handle is not well made, with a lease after that was first
// looked at), and later if the lease is lost: then its process should end and be
// started anew.
//
// With a lease, stores are filled from when it is held, or is seen to be
// another's. In the first case they have what any process before this one has
// written; in the second they catch up with that when the lease is got, before
// anything is reconciled.
//
// When ctx ends no new reconcile starts. Those that are running finish, or see
// their context end after Grace; then the lease is released, the port closed, and
// Run returns. It waits for a reconcile that heeds no context.
//
// A controller of a kind that is not installed waits for it, while the others
// run; the log says so now and then, and so does /readyz.
func Run(ctx context.Context, o Options, controllers ...Any) error {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	counted := o.Metrics == nil
	if counted {
		o.Metrics = metrics.New()
	}
	o.Grace = cmp.Or(o.Grace, 20*time.Second)

	p := &program{Options: o}
	p.open = sync.OnceValue(p.openAll)
	defer p.close() // stores outlive ctx: reconciles that finish read them
	if err := p.prepare(controllers); err != nil {
		return err
	}
	if counted {
		defer p.countRequests()()
	}
	serving, err := p.listen(ctx)
	if err != nil {
		return err
	}
	defer serving.close()
	defer p.record(ctx)()
	if err := p.elected(ctx, p.reconcile); err != nil {
		return fmt.Errorf("run controllers: %w", err)
	}
	return nil
}

// program is one call of Run.
type program struct {
	Options
	runners []runner
	// open opens the stores, at its first call; opened says that it has.
	open   func() error
	opened atomic.Bool
}

// client returns the one that is used for what belongs to no controller.
func (p *program) client() *kube.Client {
	if len(p.runners) == 0 {
		return nil
	}
	return p.runners[0].client()
}

// prepare checks the controllers.
func (p *program) prepare(controllers []Any) error {
	env := environment{log: p.Logger, metrics: p.Metrics, trace: p.Trace, events: p.Events}
	names := make(map[string]bool)
	var failed []error
	for _, c := range controllers {
		r, err := c.prepare(env)
		switch {
		case err != nil:
			failed = append(failed, err)
			continue
		case names[r.name()]:
			failed = append(failed, fmt.Errorf("configure controller %q: another one has the same name", r.name()))
		}
		names[r.name()] = true
		p.runners = append(p.runners, r)
	}
	if err := p.Metrics.Err(); err != nil {
		failed = append(failed, fmt.Errorf("configure metrics: %w", err))
	}
	return errors.Join(failed...)
}

// openAll opens the controllers.
func (p *program) openAll() error {
	var failed []error
	for _, r := range p.runners {
		failed = append(failed, r.open())
	}
	p.opened.Store(true)
	return errors.Join(failed...)
}

// record writes events until stop is called, which waits for the last of them.
func (p *program) record(ctx context.Context) (stop func()) {
	if p.Events == nil {
		return func() {}
	}
	if p.Events.Client == nil {
		p.Events.Client = p.client()
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var recording sync.WaitGroup
	recording.Go(func() {
		if err := p.Events.Run(ctx); err != nil {
			p.Logger.Error("events are not recorded", "error", err)
		}
	})
	return func() {
		cancel()
		recording.Wait()
	}
}

// countRequests counts the requests of the controllers' clients until stop is
// called.
func (p *program) countRequests() (stop func()) {
	stops := make(map[*kube.Client]func())
	for _, r := range p.runners {
		if c := r.client(); stops[c] == nil {
			stops[c] = c.OnRequest(p.Metrics.Observe)
		}
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// elected calls f while the lease is held, or at once if there is none. catchUp
// is true if stores were opened before the lease was got.
func (p *program) elected(ctx context.Context, f func(ctx context.Context, catchUp bool) error) error {
	if p.Lease.Name == "" {
		if err := p.open(); err != nil {
			return err
		}
		return f(ctx, false)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	election := p.Lease
	if election.Client == nil {
		election.Client = p.client()
	}
	if election.Logger == nil {
		election.Logger = p.Logger
	}
	tell := election.OnChange
	p.Metrics.Leader(election.Name, false)
	election.OnChange = func(holder string, mine bool) {
		p.Metrics.Leader(election.Name, mine)
		if !mine && p.open() != nil {
			cancel()
		}
		if tell != nil {
			tell(holder, mine)
		}
	}
	err := election.Run(ctx, func(ctx context.Context) error {
		catchUp := p.opened.Load()
		if err := p.open(); err != nil {
			return err
		}
		return f(ctx, catchUp)
	})
	if err == nil && p.opened.Load() {
		err = p.open() // what it has said
	}
	return err
}

// reconcile runs the controllers until ctx ends and all reconciles have.
func (p *program) reconcile(ctx context.Context, catchUp bool) error {
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	stopped := make(chan struct{})
	var running, watching sync.WaitGroup
	watching.Go(func() { p.limit(ctx, stopped, cancel) })
	for _, r := range p.runners {
		running.Go(func() { r.run(ctx, work, catchUp) })
	}
	running.Wait()
	close(stopped)
	watching.Wait()
	return nil
}

// limit ends, by cancel, what still reconciles when the grace period is over
// after the end of ctx, or at once if the lease is lost.
func (p *program) limit(ctx context.Context, stopped <-chan struct{}, cancel context.CancelCauseFunc) {
	select {
	case <-stopped:
		return
	case <-ctx.Done():
	}
	if cause := context.Cause(ctx); errors.Is(cause, lease.ErrLost) {
		cancel(cause)
		return
	}
	p.Logger.Info("stopping", "grace", p.Grace)
	select {
	case <-stopped:
		return
	case <-time.After(p.Grace):
	}
	for _, r := range p.runners {
		for _, key := range r.busy() {
			p.Logger.Warn("a reconcile takes longer than the grace period: its context ends", "controller", r.name(), "object", key.String())
		}
	}
	cancel(ErrGrace)
}

// close closes the stores and waits for those that nobody else uses.
func (p *program) close() {
	for _, r := range p.runners {
		r.close()
	}
}
