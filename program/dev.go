package program

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
)

// takeOver completes the options of a process that takes the Lease over from the operator
// in the cluster. That operator has its Lease in the namespace in which it was installed.
// The namespace need not be the one that the program names, because a chart can be
// installed into any namespace. With a Lease of another namespace both processes would
// act. So takeOver looks for the Lease, and several Leases are an error. If there is none,
// and not even the namespace of the operator, this process takes no lease: it could not
// make one in a namespace that does not exist, and would wait.
func takeOver(ctx context.Context, client *kube.Client, options *controller.Options, o Operator) error {
	if options.Lease.Namespace != "" {
		return nil
	}
	var held, free []string
	// A watch makes the program smaller than a list would, because package lease has a
	// watch too.
	leases := kube.For[coordinationv1.Lease](client).Fielded("metadata.name=" + options.Lease.Name)
	for ev, err := range leases.Watch(ctx) {
		if err != nil {
			return fmt.Errorf("find the Lease of the operator in the cluster (or set -lease-namespace): %w", err)
		}
		if ev.Type == kube.Synced {
			break
		}
		if ev.Object.Name != options.Lease.Name {
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
		log := cmp.Or(options.Logger, slog.Default()).With("lease", options.Lease.Name)
		namespace := cmp.Or(o.Install.Namespace, o.Name)
		_, err := kube.ViewOf[kube.Object](client, kube.KindOf[corev1.Namespace]()).Get(ctx, namespace)
		switch {
		case apierrors.IsNotFound(err):
			log.Info("no operator in the cluster has a Lease that could be taken over, "+
				"and its namespace does not exist: this process takes no lease", "namespace", namespace)
			options.Lease.Name = ""
		case err != nil:
			return fmt.Errorf("find the namespace for the Lease (or set -lease-namespace): %w", err)
		default:
			log.Info("no operator in the cluster has a Lease that could be taken over", "takenInNamespace", namespace)
			options.Lease.Namespace = namespace
		}
		return nil
	case 1:
		options.Lease.Namespace = found[0]
		return nil
	}
	slices.Sort(found)
	return &usageError{fmt.Errorf("-dev: the namespaces %s each have a Lease %q: choose one with -lease-namespace",
		strings.Join(found, ", "), options.Lease.Name)}
}
