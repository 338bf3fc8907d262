package kubetest

import (
	"context"
	"errors"
)

// A Component is one program of a private cluster. Its methods do to it what
// happens to such programs, and return when it is done; nothing that was done
// is undone by itself. They are safe for concurrent use.
//
// The others notice: without etcd or the API server the controller-manager and
// the scheduler may end, and are started again in a few seconds.
type Component struct {
	cluster *Cluster
	name    string
}

// APIServer returns kube-apiserver. Its address stays the same over restarts,
// and so do its certificate authority and the signing of tokens.
func (c *Cluster) APIServer() Component { return Component{c, "kube-apiserver"} }

// Etcd returns etcd. What it has confirmed it keeps, also when it is killed.
func (c *Cluster) Etcd() Component { return Component{c, "etcd"} }

// ControllerManager returns kube-controller-manager.
func (c *Cluster) ControllerManager() Component { return Component{c, "kube-controller-manager"} }

// Scheduler returns kube-scheduler.
func (c *Cluster) Scheduler() Component { return Component{c, "kube-scheduler"} }

// Kill ends it at once (SIGKILL). It stays down until Start or Restart.
func (p Component) Kill(ctx context.Context) error { return p.do(ctx, "kill") }

// Stop ends it in order (SIGTERM; SIGKILL after ten seconds): the API server
// ends its watches and waits for other requests. It stays down until Start or
// Restart.
func (p Component) Stop(ctx context.Context) error { return p.do(ctx, "stop") }

// Start starts it and returns when it is ready; it does nothing to one that
// runs.
func (p Component) Start(ctx context.Context) error { return p.do(ctx, "start") }

// Restart stops it, starts it and returns when it is ready.
func (p Component) Restart(ctx context.Context) error { return p.do(ctx, "restart") }

// Pause stops it where it is (SIGSTOP): its connections stay open, the kernel
// goes on accepting new ones, and nothing is answered.
func (p Component) Pause(ctx context.Context) error { return p.do(ctx, "pause") }

// Resume lets it go on after Pause.
func (p Component) Resume(ctx context.Context) error { return p.do(ctx, "resume") }

func (p Component) do(ctx context.Context, action string) error {
	return p.cluster.disturb(ctx, action, p.name)
}

// Compact makes etcd forget all revisions but the newest. The API server still
// has some 75 seconds of history in memory: Restart it to make it answer 410 to
// who asks for older ones.
func (c *Cluster) Compact(ctx context.Context) error { return c.disturb(ctx, "compact") }

func (c *Cluster) disturb(ctx context.Context, command string, args ...string) error {
	if !c.options.Private {
		return errors.New("disturb a cluster: it is shared; ask for one with Options.Private")
	}
	return c.run(ctx, command, args...)
}
