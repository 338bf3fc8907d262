package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/pintle-go/pintle/bench/peerecho/api"
)

const finalizer = "example.com/peerecho"

type reconciler struct {
	client client.Client
	scheme *runtime.Scheme
}

// Reconcile brings the children of an Echo to their desired state.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	echo := &api.Echo{}
	if err := r.client.Get(ctx, req.NamespacedName, echo); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !echo.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.cleanup(ctx, echo)
	}
	if controllerutil.AddFinalizer(echo, finalizer) {
		if err := r.client.Update(ctx, echo); err != nil {
			return ctrl.Result{}, fmt.Errorf("add finalizer: %w", err)
		}
	}
	named := metav1.ObjectMeta{Namespace: echo.Namespace, Name: echo.Name}
	service := &corev1.Service{ObjectMeta: named}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.client, service, func() error {
		setService(echo, service)
		return controllerutil.SetControllerReference(echo, service, r.scheme)
	}); err != nil {
		return ctrl.Result{}, fmt.Errorf("write Service: %w", err)
	}
	deployment := &appsv1.Deployment{ObjectMeta: named}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.client, deployment, func() error {
		setDeployment(echo, deployment)
		return controllerutil.SetControllerReference(echo, deployment, r.scheme)
	}); err != nil {
		return ctrl.Result{}, fmt.Errorf("write Deployment: %w", err)
	}
	return ctrl.Result{}, r.report(ctx, echo, deployment)
}

// cleanup deletes the Service first. The garbage collector deletes the rest.
func (r *reconciler) cleanup(ctx context.Context, echo *api.Echo) error {
	if !controllerutil.ContainsFinalizer(echo, finalizer) {
		return nil
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: echo.Namespace, Name: echo.Name}}
	if err := r.client.Delete(ctx, service); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete Service: %w", err)
	}
	controllerutil.RemoveFinalizer(echo, finalizer)
	if err := r.client.Update(ctx, echo); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove finalizer: %w", err)
	}
	return nil
}

// report writes the status if it has changed. It uses a patch, which unlike an update
// meets no conflict when the cache is stale.
func (r *reconciler) report(ctx context.Context, echo *api.Echo, d *appsv1.Deployment) error {
	before := echo.DeepCopyObject().(*api.Echo)
	echo.Status.Replicas, echo.Status.ReadyReplicas = d.Status.Replicas, d.Status.ReadyReplicas
	echo.Status.Selector = metav1.FormatLabelSelector(d.Spec.Selector)
	ready := metav1.ConditionFalse
	if d.Status.ObservedGeneration == d.Generation &&
		min(d.Status.UpdatedReplicas, d.Status.ReadyReplicas) == echo.Spec.Replicas {
		ready = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&echo.Status.Conditions, metav1.Condition{
		Type: api.ConditionReady, Status: ready, Reason: "Servers", ObservedGeneration: echo.Generation,
		Message: fmt.Sprintf("%d of %d servers answer", d.Status.ReadyReplicas, echo.Spec.Replicas),
	})
	if equality.Semantic.DeepEqual(before.Status, echo.Status) {
		return nil
	}
	if err := r.client.Status().Patch(ctx, echo, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write status: %w", err)
	}
	return nil
}

func labels(echo *api.Echo) map[string]string {
	return map[string]string{"app.kubernetes.io/name": "echo", "app.kubernetes.io/instance": echo.Name}
}

// setService sets the fields that the operator owns and leaves the others, so that fields
// set by the server make no difference.
func setService(echo *api.Echo, s *corev1.Service) {
	s.Labels = merged(s.Labels, labels(echo))
	s.Spec.Selector = labels(echo)
	if len(s.Spec.Ports) != 1 {
		s.Spec.Ports = make([]corev1.ServicePort, 1)
	}
	port := &s.Spec.Ports[0]
	port.Name, port.Port, port.Protocol, port.TargetPort = "http", 80, corev1.ProtocolTCP, intstr.FromInt32(8080)
}

// setDeployment does the same for the Deployment.
func setDeployment(echo *api.Echo, d *appsv1.Deployment) {
	d.Labels = merged(d.Labels, labels(echo))
	d.Spec.Replicas = &echo.Spec.Replicas
	if d.Spec.Selector == nil { // it cannot be changed later
		d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels(echo)}
	}
	d.Spec.Template.Labels = merged(d.Spec.Template.Labels, labels(echo))
	if len(d.Spec.Template.Spec.Containers) == 0 {
		d.Spec.Template.Spec.Containers = make([]corev1.Container, 1)
	}
	c := &d.Spec.Template.Spec.Containers[0]
	c.Name, c.Image = "echo", echo.Spec.Image
	if c.ReadinessProbe == nil {
		c.ReadinessProbe = &corev1.Probe{}
	}
	c.ReadinessProbe.ProbeHandler = corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(8080)}}
}

func merged(to, from map[string]string) map[string]string {
	if to == nil {
		to = map[string]string{}
	}
	for k, v := range from {
		to[k] = v
	}
	return to
}
