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
	// TLS, if it is set, makes it HTTPS. It must have a certificate, or CertDir be set.
	TLS *tls.Config
	// CertDir, if it is set, makes it HTTPS with the certificate in the files tls.crt
	// and tls.key of a directory, as a Secret of type kubernetes.io/tls is mounted.
	// They are read again when they change. It is controller-runtime's CertDir.
	CertDir string
	// Routes are handlers of the program's own.
	Routes []Route
	// Authorize has /metrics and /debug/pprof/ ask for a bearer token that the
	// cluster knows and whose user it allows to get the path, as a ClusterRole with
	// nonResourceURLs does. It needs the right to create tokenreviews and
	// subjectaccessreviews. Without TLS whoever sees the traffic sees the tokens.
	// /healthz and /readyz, which are for probes without a token, name what fails then
	// and leave the reason to the log.
	Authorize bool
	// MaxBody is how many bytes the body of a request to a [Hook] or [Route] may have. Reading
	// more fails. Default: 1 MiB.
	MaxBody int64
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
	// shows in kubectl describe, unless the reconcile or Failed has recorded a warning
	// about the object with the error. Run runs it; its Client is that of the first
	// controller if it has none.
	Events *event.Recorder
	// Trace, if it is set, makes a span of every reconcile, and below it one of
	// every request that is made with the reconcile's context. Log lines about the
	// reconcile are made with the context that it returns: a handler that adds the
	// trace's id to lines finds it there.
	Trace TraceFunc
	// Runnables are functions of the program's own that run beside the controllers.
	Runnables []Runnable
	// Checks are what /healthz and /readyz ask besides.
	Checks []Check
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

// Run runs controllers until ctx ends, and returns nil then. It returns an error
// at once if a controller is not well configured or the address cannot be
// listened on (if a handle is not well made, with a lease after that was first
// looked at), and later if a [Runnable] fails or the lease is lost: then its process
// should end and be started again.
//
// With a lease, stores are filled from when it is held, or is seen to be
// another's. In the first case they have what any process before this one has
// written; in the second they catch up with that when the lease is got, before
// anything is reconciled. Controllers with EveryReplica run from the start.
//
// When ctx ends no new reconcile starts. Those that are running finish, or see
// their context end after Grace, or when the lease is lost; then the lease is
// released, the port closed, and Run returns. It waits for a reconcile that heeds
// no context for 5 seconds after the end of that context, or for the lease's Margin
// after a loss. Then it returns an error that wraps [lease.ErrUnfinished] and names
// the controller and the object. That goroutine is left behind, the lease is not
// released, and what the goroutine writes with its context, or one derived from it,
// fails. The process should end, because nothing stops writes with other contexts.
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
	p.open = sync.OnceValue(p.openElected)
	defer p.close() // stores outlive ctx: reconciles that finish read them
	if err := p.prepare(controllers); err != nil {
		return err
	}
	if counted {
		defer p.countRequests()()
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	serving, err := p.listen(ctx)
	if err != nil {
		return err
	}
	defer serving.close()
	recording := p.record(ctx)
	err = p.run(ctx, stop)
	recording.stop(err)
	if err != nil {
		return fmt.Errorf("run controllers: %w", err)
	}
	return nil
}

// program is one call of Run.
type program struct {
	Options
	// runners are those of all controllers: of everywhere, which run in every
	// process, and of electing, which run while the lease is held.
	runners, everywhere, electing []runner
	// open opens the stores of electing, at its first call; opened says that it has.
	open   func() error
	opened atomic.Bool
	// checking are the checks that are being asked, withheld the reasons that only the
	// log has.
	checking checking
	withheld withheld
}

// run runs the activities of every replica beside those under the lease, until ctx
// ends or one of the two fails. The function stop ends ctx.
func (p *program) run(ctx context.Context, stop context.CancelCauseFunc) error {
	if err := openAll(p.everywhere); err != nil {
		return err
	}
	var everywhere, electing []Runnable
	for _, r := range p.Runnables {
		if r.EveryReplica {
			everywhere = append(everywhere, r)
		} else {
			electing = append(electing, r)
		}
	}
	ended := make(chan error, 1)
	go func() {
		err := p.together(ctx, activities(p.everywhere, everywhere, false))
		if err != nil {
			stop(err)
		}
		ended <- err
	}()
	err := p.elected(ctx, func(ctx context.Context, catchUp bool) error {
		return p.together(ctx, activities(p.electing, electing, catchUp))
	})
	stop(err)
	return errors.Join(err, <-ended)
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
		if r.everyReplica() {
			p.everywhere = append(p.everywhere, r)
		} else {
			p.electing = append(p.electing, r)
		}
	}
	failed = append(failed, inCommon(p.runners))
	failed = append(failed, p.validate())
	if err := p.Metrics.Err(); err != nil {
		failed = append(failed, fmt.Errorf("configure metrics: %w", err))
	}
	return errors.Join(failed...)
}

// validate returns what is wrong with the runnables and checks.
func (p *program) validate() error {
	var failed []error
	names := make(map[string]bool)
	for _, r := range p.Runnables {
		failed = append(failed, r.validate())
		if r.Name != "" && names[r.Name] {
			failed = append(failed, fmt.Errorf("configure runnable %q: another one has the same name", r.Name))
		}
		names[r.Name] = true
	}
	clear(names)
	for _, c := range p.Checks {
		failed = append(failed, c.validate())
		if c.Name != "" && names[c.Name] {
			failed = append(failed, fmt.Errorf("configure check %q: another one has the same name", c.Name))
		}
		names[c.Name] = true
	}
	return errors.Join(failed...)
}

// openAll opens the stores of controllers.
func openAll(runners []runner) error {
	var failed []error
	for _, r := range runners {
		failed = append(failed, r.open())
	}
	return errors.Join(failed...)
}

// openElected opens the stores of the controllers under the lease.
func (p *program) openElected() error {
	err := openAll(p.electing)
	p.opened.Store(true)
	return err
}

// recording is a recorder that writes events.
type recording struct {
	cancel context.CancelFunc
	ended  chan struct{}
}

// record writes events until stop is called.
func (p *program) record(ctx context.Context) *recording {
	if p.Events == nil {
		return nil
	}
	if p.Events.Client == nil {
		p.Events.Client = p.client()
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &recording{cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		if err := p.Events.Run(ctx); err != nil {
			p.Logger.Error("events are not recorded", "error", err)
		}
	}()
	return r
}

// stop waits for the last events. It does not wait if Run has left something
// behind, because the process should end before another one acts.
func (r *recording) stop(because error) {
	if r == nil {
		return
	}
	r.cancel()
	if !errors.Is(because, lease.ErrUnfinished) {
		<-r.ended
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
			if err := protect(func() error { tell(holder, mine); return nil }); err != nil {
				p.Logger.Error("the lease's OnChange failed", "error", err, "stack", stackOf(err))
			}
		}
	}
	err := election.Run(ctx, func(ctx context.Context) error {
		catchUp := p.opened.Load() || len(p.everywhere) > 0 // which may share stores
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

// close closes the stores and waits for those that nobody else uses.
func (p *program) close() {
	for _, r := range p.runners {
		r.close()
	}
}
