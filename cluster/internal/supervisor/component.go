package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pintle-go/pintle/cluster/internal/controlplane"
	"github.com/pintle-go/pintle/cluster/internal/process"
)

// The actions on a component.
const (
	start   = "start"   // does nothing if it runs
	stop    = "stop"    // in order; it stays down
	kill    = "kill"    // at once; it stays down
	restart = "restart" // stop and then start
	pause   = "pause"   // it keeps its connections and answers nothing
	resume  = "resume"
)

const (
	firstPause = 200 * time.Millisecond
	longPause  = 10 * time.Second
	goodRun    = time.Minute // a run of this length makes the pause short again
)

// A component is one program of the cluster. Only its goroutine (run) starts and ends the
// process; other goroutines send it requests.
type component struct {
	controlplane.Component
	group    *process.Group
	probe    *prober
	log      *slog.Logger
	requests chan request
	needs    []*component                     // those without which it does not get ready
	progress func(format string, args ...any) // gets what is waited for at the first start

	mu         sync.Mutex
	process    *process.Process // nil before the first start
	state      string
	restarts   int
	lastEnd    string
	supervised bool // restarted when it ends by itself
}

// The states of a component.
const (
	down    = "down"
	running = "running"
	paused  = "paused"
	failed  = "failed" // it ended by itself
)

type request struct {
	action string
	grace  time.Duration
	done   chan error
}

func newComponent(c controlplane.Component, group *process.Group, probe *prober, log *slog.Logger) *component {
	return &component{
		Component: c, group: group, probe: probe, state: down,
		log: log.With("component", c.Spec.Name), requests: make(chan request),
	}
}

// run owns the process until the component is shut down. It does not end with ctx,
// because components are ended in order.
func (c *component) run(context.Context) {
	pauseFor := firstPause
	var begun time.Time
	var again <-chan time.Time
	for {
		var ended <-chan struct{}
		if c.is(running, paused) {
			ended = c.process.Done()
		}
		select {
		// The process ended by itself.
		case <-ended:
			err := c.process.Err()
			if time.Since(begun) > goodRun {
				pauseFor = firstPause
			}
			if c.note(err) {
				c.log.Error("a component has ended and will be restarted", "in", pauseFor, "error", err)
				again = time.After(pauseFor)
				pauseFor = min(2*pauseFor, longPause)
			}

		// The pause after that is over.
		case <-again:
			again, begun = nil, time.Now()
			if err := c.launch(); err != nil {
				c.log.Error("cannot start a component", "error", err)
				again = time.After(pauseFor)
			}

		// Another goroutine has sent a request.
		case r := <-c.requests:
			again = nil
			if r.action == start || r.action == restart {
				begun = time.Now()
			}
			r.done <- c.act(r)
			if r.action == shutdown {
				return
			}
		}
	}
}

// shutdown is a stop without a later start.
const shutdown = "shutdown"

func (c *component) act(r request) error {
	switch r.action {
	case stop, shutdown:
		return c.halt(r.grace)
	case kill:
		return c.halt(0)
	case restart:
		if err := c.halt(r.grace); err != nil {
			return err
		}
		return c.launch()
	case start:
		if c.is(running) {
			return nil
		}
		if c.is(paused) {
			return fmt.Errorf("start %s: it is paused", c.Spec.Name)
		}
		return c.launch()
	case pause, resume:
		return c.freeze(r.action == pause)
	}
	return fmt.Errorf("unknown action %q", r.action)
}

func (c *component) launch() error {
	p, err := c.group.Start(c.Spec)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.process, c.state = p, running
	return nil
}

func (c *component) halt(grace time.Duration) error {
	if !c.is(running, paused) {
		c.setState(down)
		return nil
	}
	var err error
	if grace > 0 {
		err = c.process.Stop(context.Background(), grace)
	} else if err = c.process.Kill(); err == nil {
		<-c.process.Done()
	}
	if err == nil {
		c.setState(down)
	}
	return err
}

func (c *component) freeze(on bool) error {
	if !c.is(running, paused) {
		return fmt.Errorf("pause or resume %s: it is down", c.Spec.Name)
	}
	if on {
		c.setState(paused)
		return c.process.Pause()
	}
	c.setState(running)
	return c.process.Resume()
}

// note records that the process ended by itself, and reports whether it must be
// restarted.
func (c *component) note(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state, c.lastEnd = failed, err.Error()
	if c.supervised {
		c.restarts++
	}
	return c.supervised
}

// supervise switches on the restarts of a component that ends by itself.
func (c *component) supervise() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.supervised = true
}

// do requests an action and waits until it is complete. A start is complete when the
// process runs, which is before the component is ready.
func (c *component) do(ctx context.Context, action string) error {
	return c.ask(ctx, request{action: action, grace: 10 * time.Second})
}

func (c *component) shutDown(grace time.Duration) {
	err := c.ask(context.Background(), request{action: shutdown, grace: grace})
	if err != nil {
		c.log.Error("a component does not end", "error", err)
	}
}

func (c *component) ask(ctx context.Context, r request) error {
	r.done = make(chan error, 1)
	select {
	case c.requests <- r:
		return <-r.done
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// quiet is the time that a wait may take without a word.
const quiet = 5 * time.Second

// awaitReady waits until the component reports that it is ready. If first is set, the end
// of its process is an error; otherwise awaitReady waits for the next process.
func (c *component) awaitReady(ctx context.Context, first bool) error {
	url := c.ReadyAgain
	if first {
		url = c.Ready
	}
	said := !first
	for begun := time.Now(); ; {
		last := c.probe.check(ctx, url)
		if last == nil {
			return nil
		}
		for _, n := range c.needs {
			if n.is(down, paused) {
				return fmt.Errorf("wait for %s: %s is %s: start or resume that first", c.Spec.Name, n.Spec.Name, n.status().State)
			}
		}
		if !said && time.Since(begun) > quiet {
			c.progress("waiting for %s: %v", c.Spec.Name, last)
			said = true
		}
		if c.is(failed) && first {
			return c.startError()
		}
		if c.is(down) {
			return fmt.Errorf("wait for %s: it was stopped", c.Spec.Name)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", c.Spec.Name, errors.Join(context.Cause(ctx), last))
		case <-time.After(40 * time.Millisecond):
		}
	}
}

func (c *component) is(states ...string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range states {
		if c.state == s {
			return true
		}
	}
	return false
}

func (c *component) setState(state string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = state
}

// startError describes the failure of the first start.
func (c *component) startError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := fmt.Errorf("start the cluster: %s", c.lastEnd)
	if strings.Contains(c.lastEnd, syscall.EADDRINUSE.Error()) {
		return fmt.Errorf("%w: %w", errPortTaken, err)
	}
	return err
}

// errPortTaken reports that a component could not listen on its port.
var errPortTaken = errors.New("a port is in use")

func (c *component) status() ComponentStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	status := ComponentStatus{Name: c.Spec.Name, State: c.state, Restarts: c.restarts, LastEnd: c.lastEnd}
	if c.process != nil && (c.state == running || c.state == paused) {
		status.PID = c.process.PID()
	}
	return status
}
