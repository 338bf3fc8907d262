// Package supervisor runs one cluster: it starts the components, restarts them when they
// fail, answers on the control socket and ends the cluster.
//
//	supervisor.go  the whole life of a cluster, in order
//	component.go   the life of one component
//	owner.go       the process that a cluster belongs to, and its end
//	empty.go       the deletion of an owner's objects
//	bootstrap.go   the objects that every new cluster has
//	control.go     the requests that a running cluster accepts
//	client.go      the client for these requests
//	api.go         the requests to the API server and etcd that these files need
//
// A component that ends before the cluster is ready ends the cluster, with its last log
// lines as the reason. A component that ends later is restarted, after a pause that grows
// from 0.2 to 10 seconds. The restart is logged and shown in the status.
package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pintle-go/pintle/cluster/internal/controlplane"
	"github.com/pintle-go/pintle/cluster/internal/process"
	"github.com/pintle-go/pintle/cluster/internal/state"
)

// Config is the configuration of a cluster.
type Config struct {
	Dir      state.Dir
	Settings state.Settings
	Binary   string // of Kubernetes (package build)

	// Ownership, if set, is the process that this cluster belongs to: the cluster ends when
	// the owner ends, or is kept for another one.
	Ownership

	// Nodes run once the control plane is ready.
	Nodes []Node

	// Progress, if set, gets each step that was completed or is waited for until the
	// cluster is ready. Ready is called once when the cluster is ready.
	Progress func(string)
	Ready    func(Status)
	Log      *slog.Logger
}

// A Node is, or simulates, the machines that pods run on.
type Node interface {
	// Prepare is called before any component is started. It may change the plane (its
	// Advertise address). If this machine cannot run the node, it returns an error that
	// lists in one line the missing parts.
	Prepare(ctx context.Context, plane *controlplane.Plane) error

	// Run runs the nodes until ctx ends, and returns when everything that it started has
	// ended. It calls ready once the nodes are ready.
	Run(ctx context.Context, env Environment, ready func()) error
}

// An Actor is a Node with programs that [Client.Act] can disturb.
type Actor interface {
	// Programs returns the names of these programs.
	Programs() []string

	// Status returns the states of these programs, for the status of the cluster.
	Status() []ComponentStatus

	// Act performs an action on one of them, while Run runs, and returns when it is complete.
	Act(ctx context.Context, program, action string) error
}

// An Environment has the resources that a node may use.
type Environment struct {
	Plane     *controlplane.Plane // directories, authorities, kubeconfigs, the binary
	Processes *process.Group      // starts processes that must not outlive the supervisor
	Admin     *rest.Config        // the administrator's, without a client-side rate limit
	Log       *slog.Logger
}

// ErrRunning reports that the cluster already has a supervisor.
var ErrRunning = errors.New("the cluster is running already")

// Run runs the cluster until ctx ends or it is told to stop. It returns when all
// components have ended and, for an ephemeral cluster, its files are removed.
// The error tells why the cluster could not start or could not continue; it is nil after
// an orderly end.
func Run(ctx context.Context, config Config) (err error) {
	lock, err := config.Dir.Supervise()
	if err != nil {
		return err
	}
	if lock == nil {
		return ErrRunning
	}
	defer lock.Release()
	if config.Settings.Ephemeral {
		defer func() {
			left, removed := config.Dir.Remove(lock)
			if len(left) > 0 {
				config.Log.Warn("the directory stays, because other programs made files in it", "files", left)
			}
			err = errors.Join(err, removed)
		}()
	}
	// Ports are free when they are chosen, but another program may use them first.
	for tries := 3; ; tries-- {
		err := attempt(ctx, config)
		if !errors.Is(err, errPortTaken) || tries == 1 {
			return err
		}
		config.Log.Info("a port was taken by another program: starting again with other ports", "error", err)
	}
}

func attempt(ctx context.Context, config Config) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &supervisor{
		Config: config, end: cancel, started: time.Now(), adoptions: make(chan adoption), unowned: make(chan struct{}),
	}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	defer s.group.Close()
	defer s.probe.close()
	defer context.AfterFunc(ctx, func() { s.setPhase(Stopping) })()
	return s.run(ctx)
}

type supervisor struct {
	Config
	end     context.CancelCauseFunc
	started time.Time

	plane      *controlplane.Plane
	group      *process.Group
	probe      *prober
	components []*component
	fresh      int64 // the revision of etcd when the cluster was ready

	adoptions chan adoption
	unowned   chan struct{} // closed when there will be no adoption any more

	mu         sync.Mutex
	phase      string
	record     state.Record
	readyAfter time.Duration // the API server's
}

// The phases of a cluster.
const (
	Starting = "starting"
	Ready    = "ready"
	Stopping = "stopping"
)

// startLimit is the longest time until the control plane is ready. It needs a few
// seconds.
const startLimit = 5 * time.Minute

var errSlow = fmt.Errorf("the cluster is not ready after %s", startLimit)

func (s *supervisor) progress(format string, args ...any) {
	if s.Progress != nil {
		s.Progress(fmt.Sprintf(format, args...))
	}
}

// errStopped is the cause of an orderly end.
var errStopped = errors.New("the cluster received a request to stop")

func (s *supervisor) prepare(ctx context.Context) error {
	s.phase = Starting
	swept, err := process.Sweep(string(s.Dir))
	if err != nil {
		return err
	}
	for _, name := range swept {
		s.Log.Info("ended a process left by an earlier run", "component", name)
	}
	record, err := s.Dir.Record()
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	ports, err := choosePorts(record.APIServerPort)
	if err != nil {
		return err
	}
	plane := controlplane.Plane{
		Dir: s.Dir, Binary: s.Binary, Settings: s.Settings, Ports: ports,
		Services: record.Services, Pods: record.Pods,
		Bootstrapped: record.Bootstrapped == s.Binary,
	}
	for _, node := range s.Nodes {
		if err := node.Prepare(ctx, &plane); err != nil {
			return err
		}
	}
	if record.Services.IsValid() && plane.Services != record.Services {
		return fmt.Errorf("the cluster's Services have addresses in %v, but with these nodes they would be in %v: "+
			"use a new cluster (--name), or remove the objects of this one (down --delete)", record.Services, plane.Services)
	}
	if s.plane, err = controlplane.Prepare(plane); err != nil {
		return err
	}
	if s.probe, err = newProber(s.plane); err != nil {
		return err
	}
	self, err := process.Identify(os.Getpid())
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.Dir.Path("etcd"), 0o700); err != nil {
		return fmt.Errorf("make etcd's directory: %w", err)
	}
	// The socket of an earlier run may be where this run's environment does not lead.
	if old, err := s.Dir.Socket(); err == nil && record.Short != "" {
		if err := state.RemoveSocket(old); err != nil {
			return err
		}
	}
	short, err := s.Dir.ChooseShort()
	if err != nil {
		return err
	}
	err = s.note(func(r *state.Record) {
		*r = state.Record{
			Settings: s.Settings, Owner: s.Owner, Short: short, Binary: s.Binary, APIServerPort: ports.APIServer,
			Services: s.plane.Services, Pods: s.plane.Pods, Supervisor: self, Bootstrapped: record.Bootstrapped,
			HadNode: record.HadNode || record.Settings.RealNode,
		}
	})
	if err != nil {
		return err
	}
	s.group, err = process.NewGroup(string(s.Dir))
	return err
}

func (s *supervisor) run(ctx context.Context) error {
	for i, c := range s.plane.Components() {
		component := newComponent(c, s.group, s.probe, s.Log)
		component.needs, component.progress = s.components[:min(i, 2)], s.progress // the servers come first
		s.components = append(s.components, component)
	}
	serving, err := s.listen()
	if err != nil {
		return err
	}
	defer serving.close()

	var background sync.WaitGroup
	defer background.Wait()
	if s.Owner.PID != 0 {
		background.Go(func() { s.watchOwner(ctx) })
	}
	for _, c := range s.components {
		background.Go(func() { c.run(ctx) })
	}
	nodes, stopNodes := context.WithCancel(context.WithoutCancel(ctx))
	defer stopNodes()

	err = s.startAll(ctx)
	var nodesDone sync.WaitGroup
	if err == nil {
		err = s.startNodes(ctx, nodes, &nodesDone)
	}
	if err == nil {
		err = s.settled(ctx)
	}
	if err == nil {
		if s.setPhase(Ready) && s.Ready != nil {
			s.Ready(s.status())
		}
		<-ctx.Done()
	}
	if errors.Is(context.Cause(ctx), errStopped) {
		err = errStopped // what failed then does not matter, and is not tried again
	}
	s.stop()
	stopNodes()
	nodesDone.Wait()
	s.stopAll()
	if err == nil {
		err = context.Cause(ctx)
	}
	if errors.Is(err, errStopped) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// startAll starts the components in order, each when the one before is ready. Only the
// last two start together.
func (s *supervisor) startAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, errSlow)
	defer cancel()
	objects := old
	for i, c := range s.components {
		if i == 1 {
			var err error
			if objects, err = s.writeBootstrap(ctx); err != nil {
				return err
			}
			if objects == known {
				c.Ready = c.ReadyAgain
			}
		}
		if err := c.do(ctx, start); err != nil {
			return err
		}
		if i < 2 {
			if err := c.awaitReady(ctx, true); err != nil {
				return err
			}
		}
		if i == 1 {
			if objects == made {
				if err := s.keepBootstrap(ctx); err != nil {
					return err
				}
			}
			s.mu.Lock()
			s.readyAfter = time.Since(s.started)
			s.mu.Unlock()
			s.Log.Info("the API server is ready", "after", s.readyAfter.Round(time.Millisecond), "server", s.plane.Server())
			s.progress("API server ready after %s", s.readyAfter.Round(time.Millisecond))
		}
	}
	for _, c := range s.components[2:] {
		if err := c.awaitReady(ctx, true); err != nil {
			return err
		}
	}
	if err := s.probe.bootstrap(ctx, s.Settings.Controllers); err != nil {
		return err
	}
	for _, c := range s.components {
		c.supervise()
	}
	return nil
}

// stopAll ends the components: first the writers, then the servers that they write to. A
// cluster that will be removed does not need an orderly stop.
func (s *supervisor) stopAll() {
	grace := 10 * time.Second
	if s.Settings.Ephemeral {
		grace = 0
	}
	for i := len(s.components) - 1; i >= 0; i-- {
		s.components[i].shutDown(grace)
	}
}

func (s *supervisor) startNodes(ctx, lifetime context.Context, done *sync.WaitGroup) error {
	if len(s.Nodes) == 0 {
		return nil
	}
	admin, err := AdminConfig(s.Dir.Kubeconfig())
	if err != nil {
		return err
	}
	s.progress("waiting for nodes")
	env := Environment{Plane: s.plane, Processes: s.group, Admin: admin, Log: s.Log}
	for _, node := range s.Nodes {
		ready := make(chan struct{})
		failed := make(chan error, 1)
		done.Go(func() {
			err := node.Run(lifetime, env, sync.OnceFunc(func() { close(ready) }))
			if err == nil && lifetime.Err() == nil {
				err = errors.New("the simulated nodes ended unexpectedly")
			}
			if err != nil && lifetime.Err() == nil {
				err = fmt.Errorf("run nodes: %w", err)
				s.end(err)
			}
			failed <- err
		})
		select {
		case <-ready:
		case err := <-failed:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// AdminConfig reads the administrator's kubeconfig. The server shares its capacity
// fairly, so the client does not limit its rate.
func AdminConfig(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	config.QPS = -1
	return config, nil
}

// settled records the state of a cluster that is about to be ready.
func (s *supervisor) settled(ctx context.Context) (err error) {
	if s.Keep > 0 {
		if s.fresh, err = s.probe.revision(ctx); err != nil {
			return err
		}
	}
	return s.note(func(r *state.Record) { r.Bootstrapped = s.Binary })
}

// note changes the record and writes it.
func (s *supervisor) note(change func(*state.Record)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.record)
	return s.Dir.SetRecord(s.record)
}

func (s *supervisor) is(phase string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.phase == phase
}

// setPhase sets the phase, and reports whether it could: a cluster that stops stays so.
func (s *supervisor) setPhase(phase string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase != Stopping {
		s.phase = phase
	}
	return s.phase == phase
}

// stop ends the cluster. From now on its status says so.
func (s *supervisor) stop() {
	s.setPhase(Stopping)
	s.end(errStopped)
}
