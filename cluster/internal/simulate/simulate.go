// Package simulate simulates nodes: Node objects with leases, whose pods start, become
// ready, complete and end while no container runs. The control plane around them is real,
// so Deployments, StatefulSets, Jobs, Services and every other object that depends on the
// status of pods behave as on a real cluster.
//
// Annotations choose the behaviour of a pod. All are optional:
//
//   - simulate.pintle.dev/start-delay: how long its containers take to start, such as
//     "5s". Default: none.
//   - simulate.pintle.dev/run-for: how long they run before they end. Default: for ever,
//     or, with a restartPolicy other than Always, not at all.
//   - simulate.pintle.dev/exit-code: their exit code, default 0. It works with and
//     without run-for: "1" alone makes a pod fail as soon as it starts.
//
// Ended containers are restarted as restartPolicy says, after a back-off of 10 s that
// doubles up to 5 minutes, as the kubelet does.
//
// Caveats: a pod's IP leads to no network; logs, exec and port-forward have nothing to
// connect to; probes always succeed; volumes are ignored.
package simulate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/pintle-go/pintle/kube"
)

// Options describe the nodes to simulate.
type Options struct {
	// Nodes is the number of nodes. Nodes of an earlier run beyond that number are
	// deleted.
	Nodes int
	// Ready, if it is set, is called once the nodes are Ready and the cache has their
	// pods.
	Ready func()
	// Logger gets failures. Default: slog.Default().
	Logger *slog.Logger
}

// workers is the number of pods that are handled at a time.
const workers = 16

// Run simulates nodes until ctx ends, and returns when everything that it started has
// stopped. The nodes stay, and become NotReady after their leases expire (40 s); a later
// Run continues with them.
func Run(ctx context.Context, client *kube.Client, o Options) error {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n := newNodes(client, o)
	if err := n.create(ctx); err != nil {
		return fmt.Errorf("create simulated nodes: %w", err)
	}
	p := newPods(ctx, client, n, o.Logger)
	if err := p.informer.Sync(ctx); err != nil {
		return fmt.Errorf("simulate pods: %w", err)
	}
	if err := p.takeAddresses(ctx); err != nil {
		return fmt.Errorf("simulate pods: %w", err)
	}
	if o.Ready != nil {
		o.Ready()
	}
	var running sync.WaitGroup
	running.Go(func() { n.renew(ctx) })
	for i := range workers {
		running.Go(func() { p.work(ctx, i) })
	}
	<-ctx.Done()
	running.Wait()
	p.timers.stop()
	<-p.informer.Done()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
