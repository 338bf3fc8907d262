// Command echo runs echo servers: for every Echo a Deployment with the requested number
// of replicas, listening on port 8080, and a Service in front of them.
//
//	go run ./operators/echo                                                  # against the kubeconfig's cluster
//	go run ./operators/echo manifests | kubectl apply --server-side -f -     # in it
//	go run ./operators/echo manifests -chart DIR                             # as a Helm chart
//
// A child that is deleted or changed by hand is restored; fields that others add to it
// stay. A Deployment or Service of the same name that belongs to somebody else is left
// alone, unless it has no owner and the labels of the Echo's own. When an Echo is
// deleted, its Service is deleted first and then its servers. A failure is reported in
// the condition Ready, in an event and in the log.
package main

import (
	"context"
	"embed"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/event"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/lease"
	"github.com/pintle-go/pintle/manifest"
	"github.com/pintle-go/pintle/program"
)

// An Echo asks for echo servers behind a Service of its own name.
type Echo struct {
	kube.Object
	Spec struct {
		// Number of servers.
		Replicas int32 `json:"replicas" crd:"min=0,column"`
		// Image of the servers, which listen on port 8080.
		Image string `json:"image" crd:"default=inanimate/echo-server,minLength=1"`
	} `json:"spec"`
	Status struct {
		Replicas      int32              `json:"replicas"`
		ReadyReplicas int32              `json:"readyReplicas" crd:"column=Ready"`
		Selector      string             `json:"selector,omitempty"`
		Conditions    []metav1.Condition `json:"conditions,omitempty"`
	} `json:"status,omitzero"`
	_ struct{} `crd:"rule='self.metadata.name.matches(\"^[a-z][-a-z0-9]{0,62}$\")',message='not a name for a Service'"`
}

// GVK returns the kind.
func (Echo) GVK() kube.GVK { return kube.GVK{Group: "example.com", Version: "v1", Kind: "Echo"} }

type operator struct {
	echoes      kube.Resource[Echo]
	deployments kube.Resource[appsv1.Deployment]
	services    kube.Resource[corev1.Service]
}

func (op operator) reconcile(ctx context.Context, e *Echo) (controller.Action, error) {
	service, deployment := children(e)
	err := errors.Join(
		kube.SetController(op.echoes, e, op.services, service),
		kube.SetController(op.echoes, e, op.deployments, deployment),
	)
	if err != nil {
		return controller.Done, err
	}
	if _, err := op.services.Ensure(ctx, service); err != nil {
		return controller.Done, err
	}
	d, err := op.deployments.Ensure(ctx, deployment)
	if err != nil {
		return controller.Done, err
	}
	e.Status.Replicas = d.Status.Replicas
	e.Status.ReadyReplicas = d.Status.ReadyReplicas
	e.Status.Selector = metav1.FormatLabelSelector(d.Spec.Selector)
	ready := metav1.ConditionFalse
	serving := min(d.Status.UpdatedReplicas, d.Status.ReadyReplicas)
	if d.Status.ObservedGeneration == d.Generation && serving == e.Spec.Replicas {
		ready = metav1.ConditionTrue
	}
	message := fmt.Sprintf("%d of %d servers answer", d.Status.ReadyReplicas, e.Spec.Replicas)
	return controller.Done, op.report(ctx, e, ready, "Servers", message)
}

// report writes the status if it has changed.
func (op operator) report(ctx context.Context, e *Echo, ready metav1.ConditionStatus, reason, message string) error {
	condition := metav1.Condition{Type: "Ready", Status: ready, Reason: reason, Message: message}
	controller.SetCondition(e, &e.Status.Conditions, condition)
	return op.echoes.Status().Ensure(ctx, e)
}

func (op operator) failed(ctx context.Context, e *Echo, err error) error {
	return op.report(ctx, e, metav1.ConditionFalse, "Failed", err.Error())
}

// cleanup deletes the Service, so that no more requests arrive; then the garbage
// collector deletes the servers.
func (op operator) cleanup(ctx context.Context, e *Echo) (controller.Action, error) {
	services := op.services.In(e.Namespace)
	s, err := services.Get(ctx, e.Name)
	if apierrors.IsNotFound(err) || err == nil && !metav1.IsControlledBy(s, e) {
		return controller.Done, nil
	}
	if err == nil {
		same := metav1.NewUIDPreconditions(string(s.UID))
		err = services.Delete(ctx, e.Name, metav1.DeleteOptions{Preconditions: same})
	}
	return controller.Await, err
}

// children returns the child objects of an Echo.
func children(e *Echo) (*corev1.Service, *appsv1.Deployment) {
	const port = 8080
	labels := map[string]string{"app.kubernetes.io/name": "echo", "app.kubernetes.io/instance": e.Name}
	meta := metav1.ObjectMeta{Name: e.Name, Namespace: e.Namespace, Labels: labels}
	listens := corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(port)}}
	server := corev1.Container{Name: "echo", Image: e.Spec.Image, ReadinessProbe: &corev1.Probe{ProbeHandler: listens}}
	service := corev1.ServiceSpec{
		Selector: labels,
		Ports:    []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(port)}},
	}
	deployment := appsv1.DeploymentSpec{
		Replicas: &e.Spec.Replicas,
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{server}},
		},
	}
	return &corev1.Service{ObjectMeta: meta, Spec: service}, &appsv1.Deployment{ObjectMeta: meta, Spec: deployment}
}

//go:embed main.go
var source embed.FS

var definition = crd.Of[Echo](crd.Options{
	Source:     source,
	ShortNames: []string{"echo"},
	Scale:      &crd.Scale{LabelSelectorPath: ".status.selector"},
})

func main() { program.Main(describe) }

// describe returns the operator: its controllers, and the rights that they need.
func describe(client *kube.Client) (program.Operator, error) {
	op := operator{
		echoes:      kube.For[Echo](client),
		deployments: kube.For[appsv1.Deployment](client),
		services:    kube.For[corev1.Service](client),
	}
	echoes := controller.Controller[Echo]{
		For:       op.echoes,
		Owns:      []kube.AnyHandle{op.deployments, op.services},
		Reconcile: op.reconcile,
		Cleanup:   op.cleanup,
		Failed:    op.failed,
	}
	return program.Operator{
		Name:        "echo-operator",
		Image:       "ghcr.io/pintle-go/echo:v0.1.0",
		Controllers: []controller.Any{echoes},
		Definitions: []*crd.Definition{definition},
		Options: controller.Options{
			Lease:  lease.Lease{Name: "echo-operator"},
			Events: &event.Recorder{Controller: "example.com/echo-operator"},
		},
		Needs: []manifest.Rules{
			manifest.Applies(op.deployments, op.services),
			manifest.Gets(op.services),
			manifest.Deletes(op.services),
		},
	}, nil
}
