package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pintle-go/pintle/event"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/metrics"
)

// environment is what controllers have in common.
type environment struct {
	log     *slog.Logger
	metrics *metrics.Metrics
	trace   TraceFunc
	events  *event.Recorder // may be nil
}

// runner is an engine of any type.
type runner interface {
	name() string
	client() *kube.Client
	// everyReplica reports that it runs without the lease.
	everyReplica() bool
	// finalizes returns the finalizers that it removes.
	finalizes() []finalizing
	// open opens the stores, which fill from then on.
	open() error
	// run reconciles until ctx ends, and returns when the last reconcile has.
	// Those that are running have the context work. If a predecessor may have
	// written since the stores were opened they catch up first.
	run(ctx, work context.Context, catchUp bool)
	// waitsFor returns what keeps the controller, once it is open, from
	// reconciling, nil if nothing does.
	waitsFor() error
	// busy returns the keys that are being worked on.
	busy() []kube.Key
	hooks() []hook
	// close closes the stores, and waits for those that nobody else uses.
	close()
}

// engine runs a controller. Its stores are filled once it is open; keys are
// asked for, and worked on, while run runs.
type engine[T any] struct {
	Controller[T]
	environment
	gvk     kube.GVK
	store   *kube.Store[T]
	objects *kube.Feed
	sources []opened
	counts  *metrics.Controller

	wake chan struct{} // holds a token when there may be something to do

	mu        sync.Mutex
	queue     *queue
	known     map[kube.Key]*history // of objects that have one
	fades     time.Time             // when known is to be looked through, if it is
	accepting bool                  // requests are taken
}

// opened is a source with its feed, if it is of objects.
type opened struct {
	Source
	feed *kube.Feed
}

func (c Controller[T]) prepare(env environment) (runner, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	e := &engine[T]{
		Controller: c, environment: env, gvk: c.For.ReadOnly().Kind().GVK,
		wake:  make(chan struct{}, 1),
		queue: newQueue(), known: make(map[kube.Key]*history),
	}
	e.log = env.log.With("controller", c.Name)
	for _, owned := range c.Owns {
		e.sources = append(e.sources, opened{Source: Owned(owned)})
	}
	for _, s := range c.Watches {
		e.sources = append(e.sources, opened{Source: s})
	}
	for _, s := range e.sources {
		if err := s.validate(); err != nil {
			return nil, fmt.Errorf("configure controller %q: %w", c.Name, err)
		}
	}
	e.counts = env.metrics.Controller(c.Name, c.Concurrency, e.stats)
	return e, nil
}

// open implements runner.
func (e *engine[T]) open() error {
	e.store, e.objects = kube.OpenStore(e.For)
	for i := range e.sources {
		if s := &e.sources[i]; s.objects != nil {
			s.feed = kube.OpenFeed(s.objects)
			s.name = s.feed.Kind().Kind
		}
	}
	var failed []error
	for _, f := range e.feeds() {
		failed = append(failed, f.Err())
	}
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("configure controller %q: %w", e.Name, err)
	}
	for _, f := range e.feeds() {
		e.metrics.AddStore(f.Name(), f)
	}
	return nil
}

func (e *engine[T]) name() string         { return e.Name }
func (e *engine[T]) client() *kube.Client { return kube.ClientOf(e.For) }

// feeds returns the stores that it has opened.
func (e *engine[T]) feeds() (all []*kube.Feed) {
	if e.objects != nil {
		all = append(all, e.objects)
	}
	for _, s := range e.sources {
		if s.feed != nil {
			all = append(all, s.feed)
		}
	}
	return all
}

func (e *engine[T]) close() {
	for _, f := range e.feeds() {
		f.Close()
	}
}

func (e *engine[T]) waitsFor() error {
	for _, f := range e.feeds() {
		if f.Synced() {
			if err := gone(f); err != nil {
				return err
			}
			continue
		}
		if err := f.Trouble(); err != nil {
			return err
		}
		return fmt.Errorf("wait for the first sync of %s", f.Kind().Kind)
	}
	return nil
}

func (e *engine[T]) busy() []kube.Key {
	e.mu.Lock()
	defer e.mu.Unlock()
	var keys []kube.Key
	for key := range e.queue.running {
		keys = append(keys, key)
	}
	return keys
}

// run implements runner.
func (e *engine[T]) run(ctx, work context.Context, catchUp bool) {
	var following sync.WaitGroup
	defer following.Wait()
	e.mu.Lock()
	e.queue, e.accepting = newQueue(), true
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		e.accepting = false
		e.mu.Unlock()
	}()

	objects := make(chan struct{})
	following.Go(func() { e.follow(ctx, objects) })
	if !waitFor(ctx, objects) {
		return
	}
	var known []chan struct{}
	cluster := e.clusterScoped(ctx)
	for _, s := range e.sources {
		switch {
		case s.feed != nil:
			synced := make(chan struct{})
			known = append(known, synced)
			following.Go(func() { e.followSource(ctx, s, cluster, synced) })
		case s.run != nil:
			following.Go(func() { e.runSource(ctx, s) })
		}
	}
	for _, synced := range known {
		if !waitFor(ctx, synced) {
			return
		}
	}
	if catchUp {
		for _, f := range e.feeds() {
			e.catchUp(ctx, f)
		}
	}
	e.log.Info("controller runs", "objects", e.store.Stats().Objects)
	e.dispatch(ctx, work)
	e.log.Info("controller has stopped")
}

// catchUp has a store know what a predecessor has written last. It goes on until
// that is known, as nothing must be decided by what was before, unless the server
// refuses to tell: then the store is as new as its watch has made it.
func (e *engine[T]) catchUp(ctx context.Context, f *kube.Feed) {
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
			log.Warn("the store cannot catch up after taking the lease: it may lack what was written last", "error", err)
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

// clusterScoped reports that the objects have no namespace. What the server
// says is known by now, as a rule.
func (e *engine[T]) clusterScoped(ctx context.Context) bool {
	for {
		scope, err := kube.ScopeOf(ctx, e.For)
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

// dispatch hands out keys until ctx ends, and returns when the last one that was
// handed out has been worked on.
func (e *engine[T]) dispatch(ctx, work context.Context) {
	// Workers stay: their stacks have grown to what a reconcile needs.
	var working sync.WaitGroup
	handed, workers := make(chan *item, e.Concurrency), 0
	defer func() {
		close(handed)
		working.Wait()
	}()
	start := func(it *item) {
		if workers < len(e.queue.running) {
			workers++
			working.Go(func() {
				for it := range handed {
					e.work(work, it)
				}
			})
		}
		handed <- it // there is room for all that run
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if wait, ok := e.handOut(ctx, start); ok {
			timer.Reset(wait)
		} else {
			timer.Stop()
		}
		select {
		case <-ctx.Done():
			return
		case <-timer.C: // a key is due
		case <-e.wake: // a key was asked for, or one has been worked on
		}
	}
}

// handOut starts work on the keys whose turn it is, as many as may be worked on,
// and returns how long it is until the next is due.
func (e *engine[T]) handOut(ctx context.Context, start func(*item)) (wait time.Duration, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	for len(e.queue.running) < e.Concurrency && ctx.Err() == nil {
		it := e.queue.take(now)
		if it == nil {
			break
		}
		it.causes.dueBy(now)
		if h := e.known[it.key]; h != nil {
			until, hot := h.judge(&it.causes, now)
			if !until.IsZero() {
				e.queue.postpone(it, until)
				continue
			}
			if hot != "" {
				e.counts.HotLoop()
				e.log.Warn("an object is reconciled again and again because of what its own reconcile writes; from now on at most once a second",
					"object", it.key.String(), "flips", hot)
			}
		}
		e.counts.Taken(now.Sub(it.since))
		it.since = now
		start(it)
	}
	due, ok := e.queue.next()
	if fades := e.fade(now); !fades.IsZero() && (!ok || fades.Before(due)) {
		due, ok = fades, true
	}
	return max(0, due.Sub(now)), ok
}

// fade forgets, now and then, what no longer matters of objects that are left
// alone. It returns when it is next to be called, zero if nothing will fade. It is
// called with mu held.
func (e *engine[T]) fade(now time.Time) time.Time {
	if e.fades.IsZero() || now.Before(e.fades) {
		return e.fades
	}
	e.fades = time.Time{}
	for key, h := range e.known {
		switch {
		case !h.fade(now):
			delete(e.known, key)
		case h.writes != nil:
			e.fades = now.Add(fadeAfter)
		}
	}
	if len(e.known) == 0 {
		e.known = make(map[kube.Key]*history) // the old one stays as large as it ever was
	}
	return e.fades
}

// ask asks for reconciles.
func (e *engine[T]) ask(requests ...request) {
	e.mu.Lock()
	now := time.Now()
	added := 0
	if e.accepting {
		for _, r := range requests {
			if e.queue.add(r, now) {
				added++
			}
		}
	}
	e.mu.Unlock()
	e.counts.Added(added)
	e.signal()
}

func (e *engine[T]) signal() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// begin prepares the reconcile of a key.
func (e *engine[T]) begin(it *item) *run {
	r := &run{key: it.key, causes: it.causes, log: e.log, writes: new(writes)}
	e.mu.Lock()
	defer e.mu.Unlock()
	if h := e.known[it.key]; h != nil {
		r.blank = h.blank
	}
	return r
}

// work reconciles a key and asks for what comes next.
func (e *engine[T]) work(ctx context.Context, it *item) {
	r := e.begin(it)
	out := e.reconcile(ctx, r)
	stopping := out.err != nil && ctx.Err() != nil
	e.mu.Lock()
	now := time.Now()
	next, again, failures := e.settle(it, r, out, now)
	if again && !stopping {
		e.queue.add(next, now)
	}
	e.queue.done(it.key, now)
	e.mu.Unlock()
	took, retry := now.Sub(it.since), next.due.Sub(now)
	e.counts.Worked(took)
	if next.cause.Reason == Retried {
		e.counts.Retried()
	}
	if stopping {
		e.log.InfoContext(out.trace, "reconcile was cut off", "object", it.key.String(), "error", out.err)
	} else {
		e.say(it, out, failures, took, retry)
	}
	e.signal()
}

// stats tells the metrics how things are.
func (e *engine[T]) stats() metrics.ControllerStats {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.queue.promote(time.Now())
	s := metrics.ControllerStats{Depth: map[string]int{
		priorityLabels[live]: e.queue.depth(live),
		priorityLabels[low]:  e.queue.depth(low),
	}}
	for _, it := range e.queue.running {
		took := time.Since(it.since)
		s.Active++
		s.Unfinished += took
		s.Longest = max(s.Longest, took)
	}
	return s
}

// priorityLabels are controller-runtime's numbers for the same.
var priorityLabels = [priorities]string{live: "0", low: "-100"}
