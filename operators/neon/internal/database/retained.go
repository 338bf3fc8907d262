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

// handDown gives the children of a NeonDatabase that is being deleted its deletion policy. Its plan
// does so too, but the spec may have been changed and the NeonDatabase deleted before it could.
func (op *Operator) handDown(ctx context.Context, d *api.NeonDatabase, all *plan.Plan) error {
	want := d.Spec.DeletionPolicy
	if want == api.Delete && all.IsPaused() {
		return nil // somebody may have given a child another policy by hand
	}
	key := kube.Key{Namespace: d.Namespace, Name: baseName(d)}
	err := setPolicy(ctx, all, op.Clusters, key, want,
		func(c *api.NeonCluster) api.DeletionPolicy { return c.Spec.DeletionPolicy })
	if err == nil {
		err = setPolicy(ctx, all, op.Projects, key, want,
			func(p *api.NeonProject) api.DeletionPolicy { return p.Spec.DeletionPolicy })
	}
	if err == nil {
		key.Name += mainBranch
		err = setPolicy(ctx, all, op.Branches, key, want,
			func(b *api.NeonBranch) api.DeletionPolicy { return b.Spec.DeletionPolicy })
	}
	if err != nil {
		return fmt.Errorf("hand down the deletion policy: %w", err)
	}
	return nil
}

// setPolicy changes the policy of a child. Somebody else's object of its name is left alone, and so is
// the policy Retain of a child that is being deleted: the policy that it had before that counts.
func setPolicy[T any, P interface {
	*T
	metav1.Object
}](
	ctx context.Context, all *plan.Plan, of kube.Resource[T], key kube.Key, want api.DeletionPolicy,
	policy func(*T) api.DeletionPolicy,
) error {
	o, err := of.In(key.Namespace).Cached().Get(ctx, key.Name)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case !all.Owns(P(o)) || policy(o) == want:
		return nil
	case want == api.Delete && P(o).GetDeletionTimestamp() != nil:
		return nil
	}
	// With the resourceVersion, an object that somebody has taken from the plan is not changed.
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"resourceVersion":%q},"spec":{"deletionPolicy":%q}}`,
		P(o).GetUID(), P(o).GetResourceVersion(), want)
	_, err = of.In(key.Namespace).Patch(ctx, key.Name, types.MergePatchType, patch)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
