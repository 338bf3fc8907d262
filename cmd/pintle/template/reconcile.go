package main

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/ready"
)

// operator has a handle for each kind that it reads or writes.
type operator struct {
	gizmos      kube.Resource[Gizmo]
	deployments kube.Resource[appsv1.Deployment]
}

// reconcile is called when the object or its Deployment changes. It declares the
// wanted state: Ensure and Status().Ensure send a request only if something differs from it.
func (op operator) reconcile(ctx context.Context, o *Gizmo) (controller.Action, error) {
	want := deployment(o)
	// The owner reference makes the garbage collector delete the Deployment after the
	// object, so the operator needs no finalizer.
	if err := kube.SetController(op.gizmos, o, op.deployments, want); err != nil {
		return controller.Done, err
	}
	is, err := op.deployments.Ensure(ctx, want)
	if err != nil {
		return controller.Done, err // it is logged, and the reconcile is retried
	}
	o.Status.ReadyReplicas = is.Status.ReadyReplicas
	state := ready.Of(is)
	status := metav1.ConditionFalse
	if state.Phase == ready.Ready {
		status = metav1.ConditionTrue
	}
	// A change of the Deployment leads to the next reconcile, so there is nothing to wait for.
	return controller.Done, op.report(ctx, o, status, string(state.Phase), state.Message)
}

// failed is called after a reconcile that returned an error.
func (op operator) failed(ctx context.Context, o *Gizmo, err error) error {
	return op.report(ctx, o, metav1.ConditionFalse, "ReconcileFailed", err.Error())
}

// report writes the status with the condition Ready.
func (op operator) report(
	ctx context.Context, o *Gizmo, status metav1.ConditionStatus, reason, message string,
) error {
	condition := metav1.Condition{Type: "Ready", Status: status, Reason: reason, Message: message}
	controller.SetCondition(o, &o.Status.Conditions, condition)
	return op.gizmos.Status().Ensure(ctx, o)
}

// deployment returns the Deployment that an object asks for.
func deployment(o *Gizmo) *appsv1.Deployment {
	labels := map[string]string{"app.kubernetes.io/name": "gizmo", "app.kubernetes.io/instance": o.Name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: o.Name, Namespace: o.Namespace, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &o.Spec.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: o.Spec.Image}}},
			},
		},
	}
}
