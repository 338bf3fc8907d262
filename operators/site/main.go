// Command site runs web sites: for every Site a Deployment of web servers with the pages
// of a ConfigMap. It is the pintle half of the ports that docs/from-controller-runtime.md and
// docs/from-kube-rs.md show.
package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/event"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/lease"
	"github.com/pintle-go/pintle/manifest"
	"github.com/pintle-go/pintle/program"
)

// A Site asks for web servers.
type Site struct {
	kube.Object
	Spec struct {
		Pages    string `json:"pages" crd:"minLength=1,column,description=ConfigMap with the pages"`
		Replicas int32  `json:"replicas,omitempty" crd:"min=1,default=1"`
	} `json:"spec"`
	Status struct {
		Ready      int32              `json:"ready" crd:"column"`
		Conditions []metav1.Condition `json:"conditions,omitempty"`
	} `json:"status,omitzero"`
}

// GVK returns the kind.
func (Site) GVK() kube.GVK { return kube.GVK{Group: "example.com", Version: "v1", Kind: "Site"} }

// refersTo returns the pages of a Site.
func (s *Site) refersTo() []kube.Key {
	return []kube.Key{{Namespace: s.Namespace, Name: s.Spec.Pages}}
}

type operator struct {
	sites       kube.Resource[Site]
	deployments kube.Resource[appsv1.Deployment]
	configMaps  kube.Reader[corev1.ConfigMap]
}

func (op operator) reconcile(ctx context.Context, s *Site) (controller.Action, error) {
	pages, err := op.configMaps.In(s.Namespace).Cached().Get(ctx, s.Spec.Pages)
	if apierrors.IsNotFound(err) {
		message := "there is no ConfigMap " + s.Spec.Pages
		return controller.Done, op.report(ctx, s, metav1.ConditionFalse, "NoPages", message)
	}
	if err != nil {
		return controller.Done, err
	}
	child := deployment(s, pages.ResourceVersion)
	if err := kube.SetController(op.sites, s, op.deployments, child); err != nil {
		return controller.Done, err
	}
	d, err := op.deployments.Ensure(ctx, child)
	if err != nil {
		return controller.Done, err
	}
	s.Status.Ready = d.Status.ReadyReplicas
	ready := metav1.ConditionFalse
	if d.Status.ReadyReplicas == s.Spec.Replicas {
		ready = metav1.ConditionTrue
	}
	message := fmt.Sprintf("%d of %d servers are ready", d.Status.ReadyReplicas, s.Spec.Replicas)
	return controller.Done, op.report(ctx, s, ready, "Servers", message)
}

// report writes the status if it has changed.
func (op operator) report(ctx context.Context, s *Site, ready metav1.ConditionStatus, reason, message string) error {
	condition := metav1.Condition{Type: "Ready", Status: ready, Reason: reason, Message: message}
	controller.SetCondition(s, &s.Status.Conditions, condition)
	return op.sites.Status().Ensure(ctx, s)
}

// deployment returns the web servers of a Site. A version of the pages that is new to
// the servers replaces them.
func deployment(s *Site, version string) *appsv1.Deployment {
	labels := map[string]string{"example.com/site": s.Name}
	source := corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: s.Spec.Pages}}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name, Namespace: s.Namespace, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &s.Spec.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{"example.com/pages": version}},
				Spec: corev1.PodSpec{
					Containers: []corev1.Container{{
						Name: "web", Image: "nginx",
						VolumeMounts: []corev1.VolumeMount{{Name: "pages", MountPath: "/usr/share/nginx/html"}},
					}},
					Volumes: []corev1.Volume{{Name: "pages", VolumeSource: corev1.VolumeSource{ConfigMap: &source}}},
				},
			},
		},
	}
}

var definition = crd.Of[Site](crd.Options{})

func main() { program.Main(describe) }

// describe returns the operator with its controller and the rights that it needs.
func describe(client *kube.Client) (program.Operator, error) {
	op := operator{
		sites:       kube.For[Site](client),
		deployments: kube.For[appsv1.Deployment](client),
		configMaps:  kube.For[corev1.ConfigMap](client).ReadOnly(),
	}
	sites := controller.Controller[Site]{
		For:       op.sites,
		Owns:      []kube.AnyHandle{op.deployments},
		Watches:   []controller.Source{controller.Referenced(op.configMaps, (*Site).refersTo)},
		Reconcile: op.reconcile,
	}
	return program.Operator{
		Name:        "site-operator",
		Image:       "ghcr.io/example/site-operator:v1.0.0",
		Controllers: []controller.Any{sites},
		Definitions: []*crd.Definition{definition},
		Options: controller.Options{
			Lease:  lease.Lease{Name: "site-operator"},
			Events: &event.Recorder{Controller: "example.com/site-operator"},
		},
		Needs: []manifest.Rules{manifest.Applies(op.deployments)},
	}, nil
}
