package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pintle-go/pintle/event"
	"github.com/pintle-go/pintle/internal/finalizers"
	"github.com/pintle-go/pintle/internal/workmetrics"
	"github.com/pintle-go/pintle/internal/written"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/metrics"
)

// environment is shared by the controllers of a program.
type environment struct {
	log     *slog.Logger
	metrics *metrics.Metrics
	work    *workmetrics.Work
	trace   TraceFunc
	events  *event.Recorder // may be nil
	depths  depths
	clients *clients
	// converts has the kinds that the program itself converts.
	converts []kube.GVK
}

// runner is an engine of any type.
type runner interface {
	name() string
	client() *kube.Client
	// everyReplica reports that the controller runs without the lease.
	everyReplica() bool
	// finalizes returns the finalizers that the controller removes.
	finalizes() []finalizing
	// open opens the stores. They fill from then on.
	open()
	// run reconciles until ctx ends, and returns when the last reconcile has ended.
	// Running reconciles have the context work. If a predecessor may have written since
	// the stores were opened, the stores catch up first.
	run(ctx, work context.Context, catchUp bool)
	// waitsFor returns the reason that keeps an open controller from reconciling, nil if
	// there is none.
	waitsFor() error
	// busy returns the keys that are being worked on.
	busy() []kube.Key
	// stopped logs that run has returned.
	stopped()
	hooks() []hook
	// close closes the stores, and waits for the end of those that nobody else uses.
	close()
}

// engine runs a controller. It follows the sources and gives their requests to a
// dispatcher. It does the turns that the dispatcher hands out. Its stores fill once it is
// open. Keys are asked for, and worked on, while run runs.
type engine[T any] struct {
	Controller[T]
	environment
	gvk     kube.GVK
	objects *kube.Informer
	outside *kube.Informer // see departed.go; nil: no object leaves with a finalizer
	sources []opened
	reads   []*kube.Informer
	counts  *workmetrics.Controller
	late    error                   // cause of the end of the context if a reconcile takes too long
	streaks *memory[written.Streak] // of hot loops and of objects that reconciles have created

	current atomic.Pointer[dispatcher] // nil before run
}

// opened is a source with its feed, if the source is of objects.
type opened struct {
	Source
	feed *kube.Informer
}

func (c Controller[T]) prepare(env environment) (runner, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	e := &engine[T]{
		Controller: c, environment: env, gvk: c.For.ReadOnly().Kind().GVK,
		streaks: newMemory[written.Streak](written.StreakGap, streaksKept),
	}
	e.log = env.log.With("controller", c.Name)
	e.late = fmt.Errorf("%w: more than %s", errTimeout, c.Timeout)
	for _, s := range c.sources() {
		e.sources = append(e.sources, opened{Source: s})
	}
	e.counts = env.work.Controller(c.Name, c.Concurrency, e.stats)
	return e, nil
}

// open implements runner.
func (e *engine[T]) open() {
	e.objects = e.opened(e.For, "")
	for i := range e.sources {
		s := &e.sources[i]
		if s.indexed != nil {
			s.keys = s.indexed.keys(e.For, e.objects)
		}
		if s.objects != nil {
			s.feed = e.opened(s.objects, "")
			s.name = s.objects.Kind().Kind
		}
	}
	for _, read := range e.Reads {
		e.reads = append(e.reads, e.opened(read, ""))
	}
	e.openDeparted()
}

// opened opens a store, which metrics show under its name and more.
func (e *engine[T]) opened(h kube.AnyHandle, more string) *kube.Informer {
	f := h.Open(context.Background())
	e.metrics.AddStore(f.Name()+more+e.clients.suffix(h.Client()), f)
	return f
}

// clients are those of a program's stores, in the order in which the stores were opened.
type clients []*kube.Client

// suffix returns what tells the stores of a client from those of the program's first one in
// metrics: nothing for the first one, else the host, with a number if that is the host of an
// earlier client too.
func (cs *clients) suffix(c *kube.Client) string {
	if !slices.Contains(*cs, c) {
		*cs = append(*cs, c)
	}
	host := func(c *kube.Client) string { return c.Config().Rest.Host }
	earlier := 0
	for i, other := range *cs {
		switch {
		case other == c && i == 0:
			return ""
		case other == c && earlier == 0:
			return " at " + host(c)
		case other == c:
			return fmt.Sprintf(" at %s (%d)", host(c), earlier+1)
		case host(other) == host(c):
			earlier++
		}
	}
	return ""
}

func (e *engine[T]) name() string         { return e.Name }
func (e *engine[T]) client() *kube.Client { return e.For.Client() }

// feeds returns the stores that the engine has opened.
func (e *engine[T]) feeds() (all []*kube.Informer) {
	if e.objects != nil {
		all = append(all, e.objects)
	}
	if e.outside != nil {
		all = append(all, e.outside)
	}
	for _, s := range e.sources {
		if s.feed != nil {
			all = append(all, s.feed)
		}
	}
	return append(all, e.reads...)
}

func (e *engine[T]) close() {
	for _, f := range e.feeds() {
		f.Close()
	}
}

func (e *engine[T]) waitsFor() error {
	var own error // of a store that the server fills through this program
	for _, f := range e.feeds() {
		if f.Synced() {
			if err := lost(f); err != nil {
				return err
			}
			continue
		}
		err := f.Trouble()
		if err == nil {
			err = fmt.Errorf("wait for the first sync of %s", f.Name())
		}
		if !e.convertedHere(f.Kind()) {
			return err
		}
		own = fmt.Errorf("%w: %w", errOwnKind, err)
	}
	return own
}

// convertedHere reports whether the program converts the objects of a kind itself.
func (e *engine[T]) convertedHere(kind kube.Kind) bool {
	return slices.ContainsFunc(e.converts, func(c kube.GVK) bool { return c.GroupKind() == kind.GroupKind() })
}

func (e *engine[T]) busy() []kube.Key {
	if d := e.current.Load(); d != nil {
		return d.busy()
	}
	return nil
}

// stats returns the state for the metrics.
func (e *engine[T]) stats() workmetrics.ControllerStats {
	if d := e.current.Load(); d != nil {
		return d.stats()
	}
	return noStats()
}

// run implements runner.
func (e *engine[T]) run(ctx, work context.Context, catchUp bool) {
	own := e.Finalizer
	if e.Cleanup == nil {
		own = ""
	}
	work = finalizers.With(work, own)
	d := newDispatcher(e.Concurrency, e.MinInterval, e.counts, e.depths)
	d.stop, d.memories = ctx.Done(), append(d.memories, e.streaks.fade)
	e.current.Store(d)
	var following, working, dispatching sync.WaitGroup
	dispatching.Go(func() {
		d.run(ctx, func(t *turn) { working.Go(func() { e.serve(work, d, t, &working) }) })
	})
	if e.learn(ctx, d, &following) && catchUp {
		for _, f := range e.feeds() {
			e.catchUp(ctx, f)
		}
	}
	if ctx.Err() == nil {
		e.log.Info("controller runs", "objects", e.objects.Stats().Objects)
		close(d.known)
	}
	dispatching.Wait() // until ctx has ended, and then the last turn
	working.Wait()
	following.Wait()
}

// stopped implements runner.
func (e *engine[T]) stopped() { e.log.Info("controller has stopped") }

// learn follows the sources until ctx ends. It returns true when all their objects are
// known, and false if ctx ends before.
func (e *engine[T]) learn(ctx context.Context, d *dispatcher, following *sync.WaitGroup) bool {
	objects := make(chan struct{})
	following.Go(func() { e.follow(ctx, d, objects) })
	if !waitFor(ctx, objects) {
		return false
	}
	var known []<-chan struct{}
	if e.outside != nil {
		synced := make(chan struct{})
		known = append(known, synced)
		following.Go(func() { e.followDeparted(ctx, d, synced) })
	}
	cluster := e.clusterScoped(ctx)
	for _, s := range e.sources {
		switch {
		case s.feed != nil:
			synced := make(chan struct{})
			known = append(known, synced)
			following.Go(func() { e.followSource(ctx, d, s, cluster, synced) })
		case s.run != nil:
			following.Go(func() { e.runSource(ctx, d, s) })
		}
	}
	for _, f := range e.reads {
		if f.Sync(ctx) != nil {
			return false
		}
	}
	for _, synced := range known {
		if !waitFor(ctx, synced) {
			return false
		}
	}
	return true
}

// catchUp waits until a store knows a predecessor's last writes, because no decision may
// rest on an older state. If the server refuses to answer, catchUp gives up: then the
// store is as new as its watch has made it.
func (e *engine[T]) catchUp(ctx context.Context, f *kube.Informer) {
	log := e.log.With("store", f.Name())
	for failing := false; ; failing = true {
		err := f.Refresh(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			if failing {
				log.Info("the store has caught up")
			}
			return
		case apierrors.IsForbidden(err), errors.Is(err, kube.ErrNotServed):
			log.Warn("the store cannot catch up after taking the lease: it may lack the last writes", "error", err)
			return
		case !failing:
			log.Warn("the store cannot catch up after taking the lease; trying again", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(catchUpAgain):
		}
	}
}

const catchUpAgain = time.Second

func waitFor(ctx context.Context, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// clusterScoped reports that the objects have no namespace. As a rule the server has
// already answered this question.
func (e *engine[T]) clusterScoped(ctx context.Context) bool {
	for {
		scope, err := e.For.Scope(ctx)
		if err == nil {
			return scope == kube.ClusterScoped
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(time.Second):
		}
	}
}
