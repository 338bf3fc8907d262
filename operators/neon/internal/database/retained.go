package database

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/plan"
)

// handDown has the children of a NeonDatabase that is being deleted keep or delete their data as it says.
// The plan does so too, but the spec may have been changed and the NeonDatabase deleted before it could.
func (op *Operator) handDown(ctx context.Context, d *api.NeonDatabase) error {
	for _, n := range d.Status.Nodes {
		var err error
		want := d.Spec.DeletionPolicy
		switch n.Name {
		case "cluster":
			err = change(ctx, op.Clusters, n, want, func(c *api.NeonCluster) api.DeletionPolicy { return c.Spec.DeletionPolicy })
		case "project":
			err = change(ctx, op.Projects, n, want, func(p *api.NeonProject) api.DeletionPolicy { return p.Spec.DeletionPolicy })
		case "branch":
			err = change(ctx, op.Branches, n, want, func(b *api.NeonBranch) api.DeletionPolicy { return b.Spec.DeletionPolicy })
		}
		if err != nil {
			return fmt.Errorf("hand down the deletion policy: %w", err)
		}
	}
	return nil
}

// change changes the policy of the child of a node. Another object of its name is left alone.
func change[T any, P interface {
	*T
	metav1.Object
}](
	ctx context.Context, of kube.Resource[T], n plan.NodeStatus, want api.DeletionPolicy, policy func(P) api.DeletionPolicy,
) error {
	o, err := of.Cached().Get(ctx, kube.Key{Namespace: n.Namespace, Name: n.ObjectName})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case P(o).GetUID() != n.UID || policy(o) == want:
		return nil
	}
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"deletionPolicy":%q}}`, n.UID, want)
	_, err = of.In(n.Namespace).Patch(ctx, n.ObjectName, types.MergePatchType, patch)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
