package cluster

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/plan"
)

// endMembers deletes the StatefulSets of a cluster's safekeepers and pageservers, and returns the names of
// their pods that are there yet. A pageserver writes its newest layers to the store when it ends, for which it
// needs the store, the storage controller, the broker and their Services: the plan deletes these afterwards.
// Pods that somebody has orphaned are deleted, too.
func (op *Operator) endMembers(ctx context.Context, c *api.NeonCluster, p *plan.Plan) (pods []string, err error) {
	for _, n := range c.Status.Nodes {
		if member, _ := ofSet(c, n.ObjectName); !member || n.Kind != "StatefulSet" {
			continue
		}
		is, err := op.StatefulSets.In(c.Namespace).Cached().Get(ctx, n.ObjectName)
		if err == nil && p.Owns(is) && is.DeletionTimestamp == nil {
			err = op.StatefulSets.In(c.Namespace).Delete(ctx, is.Name, metav1.DeleteOptions{
				Preconditions: &metav1.Preconditions{UID: &is.UID},
			})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("end the members: %w", err)
		}
	}
	of := fmt.Sprintf("%s=%s,%s in (safekeeper,pageserver)", instanceLabel, c.Name, componentLabel)
	for pod, err := range op.Pods.In(c.Namespace).Labeled(of).List(ctx) {
		if err != nil {
			return nil, fmt.Errorf("look for the members' pods: %w", err)
		}
		pods = append(pods, pod.Name)
		if metav1.GetControllerOf(pod) != nil || pod.DeletionTimestamp != nil {
			continue
		}
		err := op.Pods.In(c.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &pod.UID},
		})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return nil, fmt.Errorf("end the members: %w", err)
		}
	}
	slices.Sort(pods)
	return pods, nil
}
