package plan

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/ready"
)

// isLate reports that a node was not ready within its deadline.
func (n *node) isLate(r NodeStatus, now time.Time) bool {
	waits := r.State == Waiting || r.State == Degraded
	return n.within > 0 && waits && now.Sub(r.Since.Time) >= n.within
}

// podReasons says why the pods of a workload are not ready, as [ready.Reason] does. It
// returns an empty text for other kinds, and if the operator may not list pods.
func (p *Plan) podReasons(ctx context.Context, workload any) string {
	o, selector := selectorOf(workload)
	labels, err := metav1.LabelSelectorAsSelector(selector)
	if selector == nil || err != nil {
		return ""
	}
	var reasons []string
	more := 0
	for pod, err := range kube.For[corev1.Pod](p.client).In(o.GetNamespace()).Labeled(labels.String()).List(ctx) {
		switch {
		case err != nil:
			return ""
		case ready.Is(pod) || pod.DeletionTimestamp != nil:
			continue
		}
		reason := ready.Reason(pod)
		switch {
		case slices.ContainsFunc(reasons, func(said string) bool { return strings.HasSuffix(said, ": "+reason) }):
			more++
		case len(reasons) == told:
			more++
		default:
			reasons = append(reasons, fmt.Sprintf("pod %s: %s", pod.Name, reason))
		}
	}
	if more > 0 {
		reasons = append(reasons, fmt.Sprintf("and %d more pods", more))
	}
	return strings.Join(reasons, "; ")
}

// selectorOf returns a workload and the selector of its pods, nil for other objects.
func selectorOf(workload any) (metav1.Object, *metav1.LabelSelector) {
	switch o := workload.(type) {
	case *appsv1.Deployment:
		return o, o.Spec.Selector
	case *appsv1.StatefulSet:
		return o, o.Spec.Selector
	case *appsv1.DaemonSet:
		return o, o.Spec.Selector
	case *appsv1.ReplicaSet:
		return o, o.Spec.Selector
	case *batchv1.Job:
		return o, o.Spec.Selector
	}
	return nil, nil
}
