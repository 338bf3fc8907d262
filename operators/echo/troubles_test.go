package main

import (
	"context"
	"strings"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/internal/optest"
)

// TestDefinitionDeleted deletes the definition, with all Echoes, while the operator runs,
// and installs it again.
func TestDefinitionDeleted(t *testing.T) {
	b := simulated(t)
	b.apply("web", 1)
	old := b.until("web", "it is ready", ready)
	definitions := kube.For[crd.Definition](b.client)
	const name, hold = "echoes.example.com", `{"metadata":{"finalizers":["pintle.test/hold"]}}`
	_, err := definitions.Patch(t.Context(), name, types.MergePatchType, []byte(hold))
	b.ok(err)
	released := false
	release := func(ctx context.Context) error {
		if released {
			return nil
		}
		released = true
		_, err := definitions.Patch(
			ctx,
			name,
			types.MergePatchType,
			[]byte(strings.Replace(hold, `["pintle.test/hold"]`, "null", 1)),
		)
		return err
	}
	t.Cleanup(func() { _ = release(context.Background()) }) // the cluster is shared
	b.ok(definitions.Delete(t.Context(), name))

	// An operator that starts at this point waits, and can be stopped while it waits.
	late := binary.Run(t, b.kubeconfig, "-addr=127.0.0.1:0")
	optest.Expect(t, late, "the definition is being deleted", name)
	b.ok(late.Signal(syscall.SIGTERM))
	optest.Expect(t, late, "stopped before the definitions were installed")
	if code := optest.ExpectEnd(t, late); code != 0 {
		t.Errorf("stopped while it waited: status %d", code)
	}

	b.ok(release(t.Context()))
	b.ok(definitions.UntilGone(b.soon(), name))
	optest.Expect(
		t, b.operator, "store is out of sync", "has no echoes in example.com/v1", "install its CustomResourceDefinition",
	)
	b.ok(b.services.UntilGone(b.soon(), "web")) // it was cleaned up after

	op, err := describe(b.client)
	b.ok(err)
	b.ok(crd.Install(b.soon(), b.client, op.Definitions...))
	optest.ExpectRecovery(t, b.operator, optest.NotServedYet, "kind=Echo")
	b.apply("web", 2)
	if e := b.until("web", "the new one is ready", ready); e.UID == old.UID {
		t.Error("it is the old one")
	}
}

// TestTaken creates objects with the names that an Echo needs. Objects that belong to
// others are left alone until they are deleted; an object that an Echo left behind is
// adopted.
func TestTaken(t *testing.T) {
	b := simulated(t)
	owner := new(corev1.ConfigMap)
	owner.Name = "owner"
	owners := kube.For[corev1.ConfigMap](b.client).In(b.namespace)
	owner, err := owners.Create(t.Context(), owner)
	b.ok(err)

	labels := map[string]string{"app": "other"}
	d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "other", Image: "other"}}},
		},
	}}
	d.Name = "owned"
	b.ok(kube.SetController(owners, owner, b.deployments, d))
	_, err = b.deployments.Create(t.Context(), d)
	b.ok(err)
	s := &corev1.Service{Spec: corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 80}}}}
	s.Name = "alone"
	_, err = b.services.Create(t.Context(), s)
	b.ok(err)

	fails := func(name, why string) {
		t.Helper()
		b.apply(name, 1)
		b.until(name, "it says why not", func(e *Echo) bool {
			c := meta.FindStatusCondition(e.Status.Conditions, "Ready")
			return c != nil && c.Reason == "Failed" && strings.Contains(c.Message, why)
		})
		optest.Expect(t, b.operator, "reconcile failed", why)
	}
	fails("owned", "an object of this name already exists: ConfigMap owner owns it")
	fails("alone", "an object of this name already exists, and it has no controller: delete it")
	d, err = b.deployments.Get(t.Context(), "owned")
	b.ok(err)
	if d.Spec.Template.Spec.Containers[0].Image != "other" || len(d.OwnerReferences) != 1 ||
		d.Labels["app.kubernetes.io/name"] != "" {
		t.Errorf("somebody else's Deployment was changed: %+v", d)
	}
	s, err = b.services.Get(t.Context(), "alone")
	b.ok(err)
	if len(s.Spec.Selector) != 1 || len(s.OwnerReferences) != 0 || len(s.Labels) != 0 {
		t.Errorf("somebody else's Service was changed: %+v", s)
	}
	b.ok(b.deployments.Delete(t.Context(), "owned"))
	b.ok(b.services.Delete(t.Context(), "alone"))
	b.until("owned", "it is ready", ready)
	b.until("alone", "it is ready", ready)

	// kubectl delete --cascade=orphan leaves it like this, for the next Echo of that
	// name.
	gone := new(Echo)
	gone.Name, gone.Spec.Replicas, gone.Spec.Image = "left", 3, "other"
	_, left := children(gone)
	left, err = b.deployments.Create(t.Context(), left)
	b.ok(err)
	b.apply("left", 1)
	e := b.until("left", "it is ready", ready)
	if is, err := b.deployments.Get(
		t.Context(), "left",
	); err != nil || is.UID != left.UID ||
		!metav1.IsControlledBy(is, e) {
		t.Errorf("the object left behind was not adopted: %+v, %v", is, err)
	}
}
