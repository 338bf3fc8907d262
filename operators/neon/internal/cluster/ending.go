package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/plan"
)

// endMembers deletes the StatefulSets of a cluster's safekeepers and pageservers, and returns the names of
// their pods that are there yet. A pageserver writes its newest layers to the store when it ends, for which it
// needs the store, the storage controller, the broker and their Services: the plan deletes these afterwards.
// Pods that somebody has orphaned are deleted, too. StatefulSets that are stuck stay. What cannot be deleted is
// stuck, too.
func (op *Operator) endMembers(
	ctx context.Context, c *api.NeonCluster, p *plan.Plan, stuck map[string]error,
) (pods []string, err error) {
	note := func(name string, err error) {
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			stuck[name] = err
		}
	}
	for _, n := range c.Status.Nodes {
		member, _ := ofSet(c, n.ObjectName)
		if !member || n.Kind != "StatefulSet" || stuck[n.ObjectName] != nil {
			continue
		}
		is, err := op.StatefulSets.In(c.Namespace).Cached().Get(ctx, n.ObjectName)
		if err == nil && p.Owns(is) && is.DeletionTimestamp == nil {
			err = op.StatefulSets.In(c.Namespace).Delete(ctx, is.Name, metav1.DeleteOptions{
				Preconditions: &metav1.Preconditions{UID: &is.UID},
			})
		}
		note(n.ObjectName, err)
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
		note(pod.Name, op.Pods.In(c.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &pod.UID},
		}))
	}
	slices.Sort(pods)
	return pods, nil
}

// endingText says what a deletion waits for.
func endingText(pods []string, stuck map[string]error) (text string) {
	for _, name := range slices.Sorted(maps.Keys(stuck)) {
		text += name + " stays: " + stuck[name].Error() + "; "
	}
	if len(pods) == 0 {
		return strings.TrimSuffix(text, "; ")
	}
	return text + "the pods of members end, and need the other programs meanwhile: " + strings.Join(pods[:min(len(pods), 5)], ", ")
}
