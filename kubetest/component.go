package kubetest

import (
	"context"
	"errors"
)

// A Component is one program of a private cluster. Its methods cause the faults that such
// programs have, and return when that is done. No fault ends by itself. The methods are
// safe for concurrent use.
//
// Other programs of the cluster are affected: without etcd or the API server the
// controller-manager and the scheduler may end, and are restarted in a few seconds. The
// counterparts of a Component are the fields Etcd and APIServer of controller-runtime's
// envtest.ControlPlane.
type Component struct {
	cluster *Cluster
	name    string
}

// APIServer returns kube-apiserver. Its address stays the same over restarts, and so do
// its certificate authority and the key that signs tokens.
func (c *Cluster) APIServer() Component { return Component{c, "kube-apiserver"} }

// Etcd returns etcd. It keeps every write that it has confirmed, also when it is killed.
func (c *Cluster) Etcd() Component { return Component{c, "etcd"} }

// ControllerManager returns kube-controller-manager.
func (c *Cluster) ControllerManager() Component { return Component{c, "kube-controller-manager"} }

// Scheduler returns kube-scheduler.
func (c *Cluster) Scheduler() Component { return Component{c, "kube-scheduler"} }

// Kill ends the program at once (SIGKILL). It stays down until Start or Restart.
func (p Component) Kill(ctx context.Context) error { return p.do(ctx, "kill") }

// Stop ends the program in order (SIGTERM; SIGKILL after ten seconds): the API server
// ends its watches and waits for other requests. The program stays down until Start or
// Restart.
func (p Component) Stop(ctx context.Context) error { return p.do(ctx, "stop") }

// Start starts the program and returns when it is ready. It does nothing if the program
// runs. For a second after that, /readyz of the API server may still fail: two of its hooks
// sleep before they look for objects that exist already. Start does not wait for them, and
// neither do Restart and the start of a cluster. While a program that this one needs, as the API
// server needs etcd, is down or paused, Start starts it and returns an error.
func (p Component) Start(ctx context.Context) error { return p.do(ctx, "start") }

// Restart stops the program, starts it and returns when it is ready.
func (p Component) Restart(ctx context.Context) error { return p.do(ctx, "restart") }

// Pause suspends the program (SIGSTOP): its connections stay open, the kernel still
// accepts connections for it, and no request is answered.
func (p Component) Pause(ctx context.Context) error { return p.do(ctx, "pause") }

// Resume continues the program after Pause.
func (p Component) Resume(ctx context.Context) error { return p.do(ctx, "resume") }

func (p Component) do(ctx context.Context, action string) error {
	return p.cluster.disturb(ctx, action, p.name)
}

// Compact makes etcd forget all revisions but the newest. The API server still has some
// 75 seconds of history in memory. After a Restart it answers 410 to requests for older
// revisions.
func (c *Cluster) Compact(ctx context.Context) error { return c.disturb(ctx, "compact") }

func (c *Cluster) disturb(ctx context.Context, command string, args ...string) error {
	if !c.options.Private {
		return errors.New("disturb the cluster: the cluster is shared: set Options.Private")
	}
	return c.run(ctx, command, args...)
}
