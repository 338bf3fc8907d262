package program

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/manifest"
)

// takeOver completes the options of a process that takes the Lease over from the operator
// in the cluster. That operator has its Lease in the namespace in which it was installed.
// The namespace need not be the one that the program names, because a chart can be
// installed into any namespace. With a Lease of another namespace both processes would
// act. So takeOver looks for the Lease, and several Leases are an error.
func takeOver(ctx context.Context, client *kube.Client, o *controller.Options, m manifest.Bundle) error {
	if o.Lease.Namespace != "" {
		return nil
	}
	var held, free []string
	// A watch makes the program smaller than a list would, because package lease has a
	// watch too.
	leases := kube.For[coordinationv1.Lease](client).Fielded("metadata.name=" + o.Lease.Name)
	for ev, err := range leases.Watch(ctx) {
		if err != nil {
			return fmt.Errorf("find the Lease of the operator in the cluster (or set -lease-namespace): %w", err)
		}
		if ev.Type == kube.Synced {
			break
		}
		if ev.Object.Name != o.Lease.Name {
			continue // a server may ignore the selector
		}
		if holder := ev.Object.Spec.HolderIdentity; holder != nil && *holder != "" {
			held = append(held, ev.Object.Namespace)
		} else {
			free = append(free, ev.Object.Namespace)
		}
	}
	found := held
	if len(found) == 0 {
		found = free
	}
	switch len(found) {
	case 0:
		o.Lease.Namespace = cmp.Or(m.Namespace, m.Name)
		cmp.Or(o.Logger, slog.Default()).Info("no operator in the cluster has a Lease that could be taken over",
			"lease", o.Lease.Name, "takenInNamespace", o.Lease.Namespace)
		return nil
	case 1:
		o.Lease.Namespace = found[0]
		return nil
	}
	slices.Sort(found)
	return &usageError{fmt.Errorf("-dev: the namespaces %s each have a Lease %q: choose one with -lease-namespace",
		strings.Join(found, ", "), o.Lease.Name)}
}
