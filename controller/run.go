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
	"github.com/pintle-go/pintle/internal/pod"
	"github.com/pintle-go/pintle/internal/workmetrics"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/lease"
	"github.com/pintle-go/pintle/metrics"
)

// Options are the settings that the controllers of a program share. The zero value runs
// them without an HTTP port and without a lease. In controller-runtime this is
// manager.Options.
type Options struct {
	// Lease, if it has a name, is held while controllers run. One of several processes
	// reconciles; the others keep their stores filled and wait. If Lease has no client,
	// the client of the first controller is used. In controller-runtime these are
	// LeaderElection, LeaderElectionID and their relatives.
	Lease lease.Lease
	// Grace is how long running reconciles may go on after the end of Run's context.
	// After that their own contexts end too. Default: 20 seconds, less than the 30 that a
	// pod is given. The manifests of a longer Grace give the pod 10 seconds more. In
	// controller-runtime it is GracefulShutdownTimeout.
	Grace time.Duration

	// Address is the address to listen on for health, readiness, metrics and hooks.
	// ":8080" means all addresses of the machine. Default: none. See serve.go. In
	// controller-runtime it is the BindAddress of the metrics.
	Address string
	// ProbeAddress is the address of a port that answers only /healthz and /readyz, in plain
	// HTTP, for the kubelet's probes. Clients of Address cannot keep probes out there.
	// Clients of ProbeAddress can do so only with more than 256 connections within the time
	// of one answer. A NetworkPolicy may close the port to all of them, because the kubelet
	// of the pod's node always gets through. Default: none, and ":8081" with package program
	// in a pod. It is controller-runtime's HealthProbeBindAddress.
	ProbeAddress string
	// TLS, if it is set, makes the port speak HTTPS. It must have a certificate, or
	// CertDir must be set.
	TLS *tls.Config
	// CertDir, if it is set, makes the port speak HTTPS. It is the directory of the
	// certificate's files tls.crt and tls.key, as a Secret of type kubernetes.io/tls is
	// mounted. The files are read again when they change. It is controller-runtime's
	// CertDir.
	CertDir string
	// Routes are the program's own handlers.
	Routes []Route
	// Authorize protects /metrics and /debug/pprof/. A request needs a bearer token that
	// the cluster knows, and the token's user must be allowed to get the path. A
	// ClusterRole with nonResourceURLs allows that. The program then needs the right to
	// create tokenreviews and subjectaccessreviews. Without TLS, everybody on the network
	// path sees the tokens.
	//
	// With Authorize, /healthz and /readyz name a failing check but leave its reason to
	// the log, because probes send no token. In controller-runtime it is
	// filters.WithAuthenticationAndAuthorization.
	Authorize bool
	// MaxBody is the number of bytes that the body of a request to a [Hook] or [Route]
	// may have. Reading more fails. Default: 1 MiB.
	MaxBody int64
	// Converts are the kinds whose versions the program's Routes convert for the API server.
	// Their stores may be empty in a program that is ready: if objects are stored in
	// another version, the server lists them through the program, and reaches it only when
	// it is ready.
	Converts []kube.GVK
	// Profiles, if it is set, answers requests below /debug/pprof/. The handler of
	// package profile is meant for it. In controller-runtime it is PprofBindAddress.
	Profiles http.Handler
	// Metrics get the metrics of the controllers and of their stores, and are served at
	// /metrics. Default: new ones, which also count the requests of the controllers'
	// clients. A program that gives its own has the requests counted by
	// client.OnRequest(m.Observe). If their Err returns an error before the controllers
	// start, Run returns that error.
	Metrics *metrics.Metrics
	// Logger gets all log lines. Default: slog.Default().
	Logger *slog.Logger
	// Events, if it is set, gets a warning for every reconcile that fails. kubectl
	// describe shows the warning. If the reconcile or Failed has already recorded a
	// warning with the error about the object, there is no second one. Run runs the
	// recorder. If the recorder has no Client, it gets that of the first controller. In
	// controller-runtime a manager's GetEventRecorder returns such a recorder.
	Events *event.Recorder
	// Trace, if it is set, makes a span for every reconcile. Below that span it makes one
	// for every request that is made with the reconcile's context. Log lines about the
	// reconcile are made with the context that Trace returns: a log handler that adds the
	// trace's id to lines finds the id there.
	Trace TraceFunc
	// Runnables are the program's own functions that run beside the controllers.
	Runnables []Runnable
	// Checks are further checks that /healthz and /readyz make.
	Checks []Check
}

// TraceFunc begins a span, in a context derived from ctx. It returns a function that ends
// the span and takes the attributes that are known by then. With OpenTelemetry it is:
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

// Run runs controllers until ctx ends, and then returns nil. It returns an error at once
// if [Validate] does, or if it cannot listen on the address. Later, Run returns an error
// if a [Runnable] fails or the lease is lost: then the process should end and be started
// again. In controller-runtime this is Start of a manager.Manager.
//
// With a lease, stores are filled from the moment when the lease is held, or is seen to
// be held by another process. In the first case the stores have everything that any
// process before this one has written. In the second case they catch up with those writes
// when the lease is acquired, before any object is reconciled. Controllers with
// EveryReplica run from the start.
//
// When ctx ends, no new reconcile starts. Running reconciles finish, or see their context
// end after Grace or when the lease is lost. Then the lease is released, the port is
// closed, and Run returns.
//
// From the end of ctx the program is not ready, and its answers close their connections. In
// a pod with hooks or routes the port stays open until 5 seconds after that end, or Grace
// if it is shorter, because clients send requests until they know that the pod stops. A
// [Hook] answers 503 in that time: its controller has stopped.
//
// If a reconcile heeds no context, Run waits for it for 5 seconds after the end of that
// context, or for the lease's Margin after a loss. Then Run returns an error that wraps
// [lease.ErrUnfinished] and names the controller and the object. The goroutine of that
// reconcile is left behind and the lease is not released. The goroutine's writes with its
// context, or with a context derived from it, fail. The process should end, because
// nothing stops writes with other contexts.
//
// If the kind of a controller is not installed, the controller waits for the kind while
// the others run. The log says so now and then, and so does /readyz.
func Run(ctx context.Context, o Options, controllers ...Any) error {
	return runIn(ctx, around{inPod: pod.Inside(), listen: listenTCP}, o, controllers...)
}

// runIn is Run with what a program finds around it.
func runIn(ctx context.Context, around around, o Options, controllers ...Any) error {
	counted := o.Metrics == nil
	p := &program{Options: o.withDefaults(), around: around}
	p.work = workmetrics.New(p.Metrics)
	defer p.work.Close()
	p.open = sync.OnceFunc(p.openElected)
	defer p.close() // stores outlive ctx: reconciles that finish still read from them
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
	probes, err := p.listenForProbes(ctx)
	if err != nil {
		return err
	}
	defer probes.close()
	stopped := noteStop(ctx)
	recording := p.record(ctx)
	err = p.run(ctx, stop)
	recording.stop(err)
	p.drain(stopped, err)
	if err != nil {
		return fmt.Errorf("run controllers: %w", err)
	}
	return nil
}

// withDefaults sets the defaults of empty fields.
func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Metrics == nil {
		o.Metrics = metrics.New()
	}
	o.Grace = cmp.Or(o.Grace, 20*time.Second)
	o.Lease.Duration = cmp.Or(o.Lease.Duration, 15*time.Second) // the defaults of package lease
	o.Lease.Margin = cmp.Or(o.Lease.Margin, o.Lease.Duration/5)
	return o
}

// program is one call of Run.
type program struct {
	Options
	around around
	// runners are those of all controllers. Those of everywhere run in every process.
	// Those of electing run while the lease is held.
	runners, everywhere, electing []runner
	// open opens the stores of electing at its first call; opened is true after that
	// call.
	open   func()
	opened atomic.Bool
	// checking holds the checks that are running. withheld holds the reasons that only
	// the log gets.
	checking checking
	withheld withheld
	// work has the metrics of the controllers and of the lease.
	work *workmetrics.Work
}

// run runs the activities of every replica beside those under the lease, until ctx ends
// or one of the two groups fails. The function stop ends ctx.
func (p *program) run(ctx context.Context, stop context.CancelCauseFunc) error {
	openAll(p.everywhere)
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

// client returns the client for requests that belong to no controller.
func (p *program) client() *kube.Client {
	if len(p.runners) == 0 {
		return nil
	}
	return p.runners[0].client()
}

// prepare checks the options and the controllers. It is all that [Validate] does.
func (p *program) prepare(controllers []Any) error {
	env := environment{
		log: p.Logger, metrics: p.Metrics, work: p.work, trace: p.Trace, events: p.Events, depths: newDepths(),
		clients: new(clients), converts: p.Converts,
	}
	names := make(map[string]bool)
	var failed []error
	for i, c := range controllers {
		if isNil(c) {
			failed = append(failed, fmt.Errorf("configure controller %d: it is nil", i))
			continue
		}
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
	failed = append(failed, inCommon(p.runners), p.validate())
	if err := p.Metrics.Err(); err != nil {
		failed = append(failed, fmt.Errorf("configure metrics: %w", err))
	}
	return errors.Join(failed...)
}

// validate returns the mistakes in the options.
func (p *program) validate() error {
	var failed []error
	if p.Grace < 0 || p.MaxBody < 0 {
		failed = append(failed, errors.New("configure options: a number is negative"))
	}
	if p.Lease.Name != "" {
		if err := p.Lease.Validate(); err != nil {
			failed = append(failed, fmt.Errorf("configure lease %q: %w", p.Lease.Name, err))
		}
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := p.routes(ended, ended); err != nil {
		failed = append(failed, err)
	}
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
func openAll(runners []runner) {
	for _, r := range runners {
		r.open()
	}
}

// openElected opens the stores of the controllers under the lease.
func (p *program) openElected() {
	openAll(p.electing)
	p.opened.Store(true)
}

// recording is a recorder that writes events.
type recording struct {
	cancel context.CancelFunc
	ended  chan struct{}
}

// record starts a recorder that writes events until stop is called.
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
			p.Logger.Error("cannot record events", "error", err)
		}
	}()
	return r
}

// stop waits until the last events are written. It does not wait if Run has left a
// goroutine behind, because the process should then end before another process acts.
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

// elected calls f while the lease is held, or at once if there is none. catchUp is true
// if stores were opened before the lease was acquired.
func (p *program) elected(ctx context.Context, f func(ctx context.Context, catchUp bool) error) error {
	if p.Lease.Name == "" {
		p.open()
		return f(ctx, false)
	}
	election := p.Lease
	if election.Client == nil {
		election.Client = p.client()
	}
	if election.Logger == nil {
		election.Logger = p.Logger
	}
	tell := election.OnChange
	p.work.Leader(election.Name, false)
	election.OnChange = func(holder string, mine bool) {
		p.work.Leader(election.Name, mine)
		if !mine {
			p.open()
		}
		if tell != nil {
			if err := protect(func() error { tell(holder, mine); return nil }); err != nil {
				p.Logger.Error("the lease's OnChange failed", "error", err, "stack", stackOf(err))
			}
		}
	}
	return election.Run(ctx, func(ctx context.Context) error {
		catchUp := p.opened.Load() || len(p.everywhere) > 0 // runners of everywhere may share stores with these
		p.open()
		return f(ctx, catchUp)
	})
}

// close closes the stores and waits for the end of those that nobody else uses.
func (p *program) close() {
	for _, r := range p.runners {
		r.close()
	}
}
