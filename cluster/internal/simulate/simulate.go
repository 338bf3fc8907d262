// Package simulate plays nodes: Node objects with leases whose pods start,
// become ready, complete and end without any container being run. The control
// plane around them is real, so Deployments, StatefulSets, Jobs, Services and
// everything else that looks at pods' status behaves as on a real cluster.
//
// What a pod does can be asked for by annotations, all optional:
//
//   - simulate.pintle.dev/start-delay: how long its containers take to start, as
//     "5s". Default: none.
//   - simulate.pintle.dev/run-for: how long they run before they end. Default: for
//     ever, or, with a restartPolicy other than Always, not at all.
//   - simulate.pintle.dev/exit-code: what they end with, default 0. With a
//     run-for or without: "1" alone makes a pod fail as soon as it starts.
//
// Containers that end are started again as restartPolicy says, after a
// back-off of 10 s that doubles up to 5 minutes, as the kubelet does.
//
// Caveats: there is no network behind a pod's IP; logs, exec and port-forward
// have nothing to connect to; probes are taken to succeed; volumes are ignored.
package simulate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/pintle-go/pintle/kube"
)

// Options say what to play.
type Options struct {
	// Nodes is how many there are. Nodes of an earlier run beyond that number
	// are deleted.
	Nodes int
	// Ready, if it is set, is called once the nodes are Ready and pods on them
	// are seen.
	Ready func()
	// Logger gets what goes wrong. Default: slog.Default().
	Logger *slog.Logger
}

// workers is how many pods are worked on at a time.
const workers = 16

// Run plays nodes until ctx ends, and returns when everything it started has
// stopped. The nodes stay, and become NotReady after their leases expire (40 s);
// a later Run goes on with them.
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
	if err := p.store.Sync(ctx); err != nil {
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
	<-p.store.Done()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
