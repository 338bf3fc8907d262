package kube_test

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kube/pod"
	"github.com/pintle-go/pintle/kubetest"
)

// state is a store's state of an object: "", "there" or "going".
func state[T any, P interface {
	*T
	metav1.Object
}](t *testing.T, store *kube.Store[T], key kube.Key) string {
	t.Helper()
	o, err := store.Get(soon(t), key)
	listed := ""
	for o, err := range store.All(soon(t)) {
		must(t, err)
		if P(o).GetName() == key.Name {
			listed = "there"
			if P(o).GetDeletionTimestamp() != nil {
				listed = "going"
			}
		}
	}
	is := "there"
	switch {
	case apierrors.IsNotFound(err):
		is = ""
	case err != nil:
		t.Fatal(err)
	case P(o).GetDeletionTimestamp() != nil:
		is = "going"
	}
	if is != listed {
		t.Errorf("%s is %q when got and %q when listed", key, is, listed)
	}
	return is
}

func wantState[T any, P interface {
	*T
	metav1.Object
}](t *testing.T, store *kube.Store[T], key kube.Key, after, want string) {
	t.Helper()
	began := time.Now()
	if is := state[T, P](t, store, key); is != want {
		t.Errorf("%s is %q after %s, want %q", key, is, after, want)
	}
	if d := time.Since(began); d > 30*time.Second {
		t.Errorf("reading %s after %s took %s", key, after, d)
	}
}

// TestStoreReadsAfterDeletions reads immediately after the API server deletes objects in
// different ways: at once, once a finalizer is gone, and after a grace period.
func TestStoreReadsAfterDeletions(t *testing.T) {
	s := start(t)
	services := kube.For[corev1.Service](s.Client).In(s.namespace)
	claims := kube.For[corev1.PersistentVolumeClaim](s.Client).In(s.namespace)
	pods := kube.For[corev1.Pod](s.Client).In(s.namespace)
	serviceStore, claimStore, podStore := kube.StoreOf(t.Context(), services), kube.StoreOf(t.Context(), claims), kube.StoreOf(t.Context(), pods)
	for i := range 20 {
		key := kube.Key{Namespace: s.namespace, Name: fmt.Sprint("x", i)}

		got(services.Create(soon(t), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: key.Name},
			Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}))(t)
		wantState(t, serviceStore, key, "creation", "there")
		must(t, services.Delete(soon(t), key.Name))
		wantState(t, serviceStore, key, "deletion", "")

		claim := got(claims.Create(soon(t), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: key.Name},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
				},
			}}))(t)
		if len(claim.Finalizers) == 0 {
			t.Fatal("the claim has no finalizer")
		}
		must(t, claims.Delete(soon(t), key.Name))
		wantState(t, claimStore, key, "deletion", "going")
		got(claims.Patch(soon(t), key.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))(t)
		wantState(t, claimStore, key, "removal of the finalizer", "")

		got(pods.Create(soon(t), simplePod(key.Name)))(t)
		got(kube.Sub[corev1.Binding](pods, "binding").Create(soon(t), key.Name, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: key.Name},
			// The collector of pods looks for an absent node for 40 s. After that it deletes its pods at once.
			Target: corev1.ObjectReference{Kind: "Node", Name: s.namespace + key.Name},
		}))(t)
		// A deletion begins with the copy of the API server's watch cache. If that copy has no
		// node yet, the pod is deleted without a grace period.
		kubetest.Eventually(t, "the store shows the node", func() error {
			if o := got(podStore.Get(soon(t), key))(t); o.Spec.NodeName == "" {
				return fmt.Errorf("%s has none", o.Name)
			}
			return nil
		})
		must(t, pods.Delete(soon(t), key.Name))
		wantState(t, podStore, key, "deletion", "going")
		none := int64(0)
		must(t, pods.Delete(soon(t), key.Name, metav1.DeleteOptions{GracePeriodSeconds: &none}))
		wantState(t, podStore, key, "deletion without grace", "")

		got(pods.Create(soon(t), simplePod(key.Name)))(t)
		wantState(t, podStore, key, "creation under an old name", "there")
		must(t, pod.Evict(soon(t), pods, key.Name, metav1.DeleteOptions{}))
		if is := state(t, podStore, key); is == "there" {
			t.Errorf("%s is %q after eviction", key, is)
		}
	}
}

// TestStoreReadsAfterScale reads immediately after a write through a subresource of
// another kind.
func TestStoreReadsAfterScale(t *testing.T) {
	s := start(t)
	deployments := kube.For[appsv1.Deployment](s.Client).In(s.namespace)
	store := kube.StoreOf(t.Context(), deployments)
	scales := kube.Sub[autoscalingv1.Scale](deployments, "scale")
	got(deployments.Create(soon(t), deployment("x")))(t)
	for n := range int32(30) {
		scale := got(scales.Get(soon(t), "x"))(t)
		scale.Spec.Replicas = n + 2
		got(scales.Update(soon(t), "x", scale))(t)
		if d := got(store.Get(soon(t), kube.Key{Namespace: s.namespace, Name: "x"}))(t); *d.Spec.Replicas != n+2 {
			t.Fatalf("scaled to %d, read %d", n+2, *d.Spec.Replicas)
		}
		d := got(deployments.Modify(soon(t), "x", func(d *appsv1.Deployment) error {
			d.Spec.Paused = n%2 == 0
			return nil
		}))(t)
		if is := got(store.Get(soon(t), kube.KeyOf(d)))(t); is.Spec.Paused != (n%2 == 0) {
			t.Fatalf("modified to %t, read %t", n%2 == 0, is.Spec.Paused)
		}
	}
}
