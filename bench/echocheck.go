package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/pintle-go/pintle/bench/peerecho/api"
)

// verify checks the children of an Echo that reports that it is ready: the operator has
// to have made them, and the Deployment has to be ready too.
func (e echoes) verify(ctx context.Context, name string) error {
	key := client.ObjectKey{Namespace: e.namespace, Name: name}
	var echo api.Echo
	var deployment appsv1.Deployment
	var service corev1.Service
	for _, o := range []client.Object{&echo, &deployment, &service} {
		if err := e.client.Get(ctx, key, o); err != nil {
			return fmt.Errorf("see the objects of Echo %s: %w", name, err)
		}
	}
	return checkChildren(&echo, &deployment, &service)
}

// checkChildren returns an error that names all that is wrong with the children.
func checkChildren(e *api.Echo, d *appsv1.Deployment, s *corev1.Service) error {
	var wrong []error
	for _, child := range []client.Object{d, s} {
		if !metav1.IsControlledBy(child, e) {
			wrong = append(wrong, fmt.Errorf("the %T has no owner reference to the Echo", child))
		}
	}
	if len(e.Finalizers) == 0 {
		wrong = append(wrong, errors.New("the Echo has no finalizer"))
	}
	if d.Status.AvailableReplicas != e.Spec.Replicas || d.Status.ReadyReplicas != e.Status.ReadyReplicas {
		wrong = append(wrong, fmt.Errorf("the Echo wants %d and reports %d servers, and %d of %d are available",
			e.Spec.Replicas, e.Status.ReadyReplicas, d.Status.AvailableReplicas, d.Status.Replicas))
	}
	if labels.SelectorFromSet(s.Spec.Selector).String() != e.Status.Selector || e.Status.Selector == "" {
		wrong = append(wrong, fmt.Errorf("the Echo reports the selector %q, and the Service has %v",
			e.Status.Selector, s.Spec.Selector))
	}
	return errors.Join(wrong...)
}

// echoDefinition is the name of the definition of Echo.
const echoDefinition = "echoes.example.com"

// define creates the definition in a file, and waits until the server serves the kind.
func (e echoes) define(ctx context.Context, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(data, &crd.Object); err != nil {
		return fmt.Errorf("read definition: %w", err)
	}
	if err := e.client.Create(ctx, crd); err != nil {
		return fmt.Errorf("create definition: %w", err)
	}
	return waitServed(ctx, e.client, "example.com", "v1", "EchoList")
}

// undefine deletes the definition of Echo and waits until it is gone.
func (e echoes) undefine(ctx context.Context) error {
	crd := &unstructured.Unstructured{}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	crd.SetName(echoDefinition)
	if err := e.client.Delete(ctx, crd); err != nil {
		return fmt.Errorf("delete definition: %w", err)
	}
	return e.poll(ctx, "definitions are left to delete", func() (int, bool, error) {
		err := e.client.Get(ctx, client.ObjectKeyFromObject(crd), crd)
		if apierrors.IsNotFound(err) {
			return 0, true, nil
		}
		return 1, false, err
	})
}
