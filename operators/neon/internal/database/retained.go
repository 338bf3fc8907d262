package database

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/plan"
)

// retain has the children of a NeonDatabase that is being deleted keep their data. The plan does so
// too, but the spec may have been changed and the NeonDatabase deleted before it could.
func (op *Operator) retain(ctx context.Context, d *api.NeonDatabase) error {
	if d.Spec.DeletionPolicy != api.Retain {
		return nil
	}
	for _, n := range d.Status.Nodes {
		var err error
		switch n.Name {
		case "cluster":
			err = keep(ctx, op.Clusters, n, func(c *api.NeonCluster) api.DeletionPolicy { return c.Spec.DeletionPolicy })
		case "project":
			err = keep(ctx, op.Projects, n, func(p *api.NeonProject) api.DeletionPolicy { return p.Spec.DeletionPolicy })
		case "branch":
			err = keep(ctx, op.Branches, n, func(b *api.NeonBranch) api.DeletionPolicy { return b.Spec.DeletionPolicy })
		}
		if err != nil {
			return fmt.Errorf("keep the data: %w", err)
		}
	}
	return nil
}

// keep changes the policy of the child of a node. Another object of its name is left alone.
func keep[T any](
	ctx context.Context, of kube.Resource[T], n plan.NodeStatus, policy func(*T) api.DeletionPolicy,
) error {
	o, err := of.Cached().Get(ctx, kube.Key{Namespace: n.Namespace, Name: n.ObjectName})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case policy(o) == api.Retain:
		return nil
	}
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"deletionPolicy":%q}}`, n.UID, api.Retain)
	_, err = of.In(n.Namespace).Patch(ctx, n.ObjectName, types.MergePatchType, patch)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
