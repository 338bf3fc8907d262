package ready_test

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/ready"
)

// TestRealStatuses tests the rules with objects that the controllers of a real cluster
// write.
func TestRealStatuses(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a cluster")
	}
	cluster := kubetest.Start(t, kubetest.Options{Nodes: 1})
	client, err := kube.Config{Rest: cluster.Config()}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	ns := cluster.Namespace(t)
	labels := map[string]string{"app": "web"}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
	}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	once := template
	once.Spec.RestartPolicy = corev1.RestartPolicyNever

	becomes(t, kube.For[appsv1.Deployment](client).In(ns), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       appsv1.DeploymentSpec{Replicas: ptr(int32(2)), Selector: selector, Template: template},
	}, ready.Is)
	becomes(t, kube.For[appsv1.StatefulSet](client).In(ns), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr(int32(2)), Selector: selector, Template: template, ServiceName: "web",
		},
	}, ready.Is)
	becomes(t, kube.For[appsv1.DaemonSet](client).In(ns), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       appsv1.DaemonSetSpec{Selector: selector, Template: template},
	}, ready.Is)
	becomes(t, kube.For[batchv1.Job](client).In(ns), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: batchv1.JobSpec{Template: once},
	}, ready.HasEnded)
	becomes(t, kube.For[corev1.Service](client).In(ns), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 80}}},
	}, ready.Is)

	balancers := kube.For[corev1.Service](client).In(ns)
	balancer, err := balancers.Apply(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "balancer"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Selector: labels, Ports: []corev1.ServicePort{{Port: 80}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := ready.Of(balancer); got.Message != "the load balancer has no address" {
		t.Errorf("a load balancer without a controller: %+v", got)
	}

	if _, err := kube.For[corev1.Namespace](client).Until(soon(t), ns, ready.Is); err != nil {
		t.Error(err)
	}
	services := kube.For[unstructured.Unstructured](client, kube.Kind{
		GVK: kube.GVK{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"},
	})
	if _, err := services.Until(soon(t), "v1.apps", ready.Is); err != nil {
		t.Error(err)
	}
	name := "things." + strings.ReplaceAll(ns, "_", "-") + ".example.com"
	definitions := kube.For[crd.Definition](client)
	schema := crd.Schema{Type: "object", PreserveUnknownFields: true}
	becomes(t, definitions, &crd.Definition{
		Object: kube.Object{ObjectMeta: metav1.ObjectMeta{Name: name}},
		Spec: crd.Spec{
			Group: strings.TrimPrefix(name, "things."), Scope: kube.Namespaced,
			Names:    crd.Names{Kind: "Thing", ListKind: "ThingList", Plural: "things", Singular: "thing"},
			Versions: []crd.Version{{Name: "v1", Served: true, Storage: true, Schema: crd.Validation{OpenAPIV3Schema: &schema}}},
		},
	}, ready.Is)
	if err := definitions.Delete(t.Context(), name); err != nil {
		t.Error(err)
	}
}

// becomes makes an object and waits until a condition holds of it.
func becomes[T any](t *testing.T, objects kube.Resource[T], o *T, holds func(*T) bool) {
	t.Helper()
	made, err := objects.Apply(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	name := any(made).(metav1.Object).GetName()
	if _, err := objects.Until(soon(t), name, holds); err != nil {
		now, gerr := objects.Get(t.Context(), name)
		t.Errorf("%v; it is %+v, %v", err, ready.Of(now), gerr)
	}
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}
