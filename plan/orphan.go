package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube"
)

// Between the deletion of a StatefulSet without its pods and its creation, the pods belong
// to nobody. If the node leaves the plan then, or the owner is deleted, nobody would delete
// them. So their labels are recorded before the deletion, and a StatefulSet without replicas
// is made that takes the pods over, and is deleted with them.

// orphansOf returns the labels by which a StatefulSet of the selector takes pods over.
func orphansOf(set *appsv1.StatefulSet) map[string]string {
	if s := set.Spec.Selector; s != nil && len(s.MatchExpressions) == 0 && len(s.MatchLabels) > 0 {
		return s.MatchLabels
	}
	return set.Spec.Template.Labels
}

// as returns an object of any Go type as one of another type.
func as[T any](o any) (*T, error) {
	if is, ok := o.(*T); ok {
		return is, nil
	}
	is := new(T)
	raw, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(raw, is)
	}
	if err != nil {
		return nil, fmt.Errorf("read the object as a %T: %w", *is, err)
	}
	return is, nil
}

// hasAdopted reports that a StatefulSet has taken its pods over: its controller does that
// before it writes the status.
func hasAdopted(set *appsv1.StatefulSet) bool {
	return set.DeletionTimestamp == nil && set.Status.ObservedGeneration > 0
}

// collect gives the orphaned pods of a recorded StatefulSet to one that can be deleted with
// them. It returns an empty removal if the StatefulSet can be deleted now.
func (p *Plan) collect(ctx context.Context, s NodeStatus) removal {
	waits := removal{waits: "its pods have to be taken over before it is deleted", again: soonest}
	sets := kube.For[appsv1.StatefulSet](p.client).In(s.Namespace)
	is, err := sets.Get(ctx, s.ObjectName)
	switch {
	case apierrors.IsNotFound(err):
		keeper := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{
			Name: s.ObjectName, Namespace: s.Namespace, Annotations: map[string]string{Mark: p.mark().String()},
		}}
		none := int32(0)
		keeper.Spec.Replicas = &none
		keeper.Spec.Selector = &metav1.LabelSelector{MatchLabels: s.Orphans}
		keeper.Spec.Template.Labels = s.Orphans
		keeper.Spec.Template.Spec.Containers = []corev1.Container{{Name: "none", Image: "none"}}
		if _, err := sets.Apply(ctx, keeper); err != nil {
			return removal{err: fmt.Errorf("take over the pods of StatefulSet %s: %w", s.ObjectName, err)}
		}
		return waits
	case err != nil:
		return removal{err: err}
	case p.Owns(is) && is.DeletionTimestamp == nil && !hasAdopted(is):
		return waits
	case p.Owns(is) && slices.Contains(is.Finalizers, metav1.FinalizerOrphanDependents):
		return waits // the pods are being orphaned
	}
	return removal{}
}
