package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/manifest"
	"github.com/pintle-go/pintle/program"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is the longest time that a step may take on a busy machine.
const patience = 3 * time.Minute

// bench is a namespace of a real cluster, and the operator beside it.
type bench struct {
	*testing.T
	operator    program.Operator
	used        manifest.Audit // the rights that the operator has used
	gizmos      kube.Resource[Gizmo]
	deployments kube.Resource[appsv1.Deployment]
}

// start starts a Kubernetes with a simulated node, and runs the operator until the test
// ends.
func start(t *testing.T) *bench {
	t.Helper()
	cluster := kubetest.Start(t, kubetest.Options{Nodes: 1})
	b := &bench{T: t}

	config := cluster.Config()
	config.Wrap(b.used.Wrap)
	theirs := connect(t, kube.Config{Rest: config})
	op, err := describe(theirs)
	b.ok(err)
	b.operator = op

	ours := connect(t, kube.Config{Rest: cluster.Config(), FieldManager: "test"})
	b.ok(crd.Install(t.Context(), ours, op.Definitions...))
	namespace := cluster.Namespace(t)
	b.gizmos = kube.For[Gizmo](ours).In(namespace)
	b.deployments = kube.For[appsv1.Deployment](ours).In(namespace)

	// The operator runs without its lease, which another test may hold.
	options := controller.Options{Events: op.Options.Events}
	ended := make(chan error, 1)
	go func() { ended <- controller.Run(t.Context(), options, op.Controllers...) }()
	t.Cleanup(func() { // the test's context has ended
		if err := <-ended; err != nil {
			t.Errorf("the operator ended: %v", err)
		}
	})
	return b
}

func connect(t *testing.T, config kube.Config) *kube.Client {
	t.Helper()
	client, err := config.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func (b *bench) ok(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// soon returns a context for one step.
func (b *bench) soon() context.Context {
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	b.Cleanup(cancel)
	return ctx
}

// apply creates an object, or changes it.
func (b *bench) apply(name, image string, replicas int32) {
	b.Helper()
	o := new(Gizmo)
	o.Name, o.Spec.Image, o.Spec.Replicas = name, image, replicas
	_, err := b.gizmos.Apply(b.soon(), o)
	b.ok(err)
}

// untilReady waits until an object says that it is ready as its spec is.
func (b *bench) untilReady(name string) *Gizmo {
	b.Helper()
	o, err := b.gizmos.Until(b.soon(), name, func(o *Gizmo) bool {
		c := meta.FindStatusCondition(o.Status.Conditions, "Ready")
		return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == o.Generation
	})
	b.ok(err)
	return o
}

// TestOperator takes an object through its life.
func TestOperator(t *testing.T) {
	b := start(t)
	b.apply("hello", "web:v1", 2)
	o := b.untilReady("hello")
	if o.Status.ReadyReplicas != 2 {
		t.Errorf("%d replicas are ready, want 2", o.Status.ReadyReplicas)
	}
	d, err := b.deployments.Get(b.soon(), "hello")
	b.ok(err)
	if d.Spec.Template.Spec.Containers[0].Image != "web:v1" || !metav1.IsControlledBy(d, o) {
		t.Errorf("the Deployment is %+v", d)
	}

	b.apply("hello", "web:v2", 3)
	if o := b.untilReady("hello"); o.Status.ReadyReplicas != 3 {
		t.Errorf("%d replicas are ready, want 3", o.Status.ReadyReplicas)
	}

	// The operator restores objects that somebody else changes or deletes.
	patch := []byte(`{"spec":{"replicas":5}}`)
	_, err = b.deployments.Patch(b.soon(), "hello", types.MergePatchType, patch)
	b.ok(err)
	d, err = b.deployments.Until(b.soon(), "hello", func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 3 })
	b.ok(err)
	b.ok(b.deployments.Delete(b.soon(), "hello"))
	_, err = b.deployments.Until(b.soon(), "hello", func(n *appsv1.Deployment) bool { return n.UID != d.UID })
	b.ok(err)
	b.untilReady("hello")

	// The garbage collector deletes the Deployment, because of the owner reference. It can
	// take half a minute to find a kind that was just installed, so the test does not wait.
	b.ok(b.gizmos.Delete(b.soon(), "hello"))
	b.ok(b.gizmos.UntilGone(b.soon(), "hello"))

	// The manifests grant all rights that the requests needed, and no others.
	if err := b.used.Compare(b.operator); err != nil {
		t.Error(err)
	}
}

// TestFailure has the operator say in the status why it cannot do its work.
func TestFailure(t *testing.T) {
	b := start(t)
	somebodys := deployment(&Gizmo{Spec: GizmoSpec{Image: "other"}})
	somebodys.Name = "taken"
	somebodys.Labels = nil
	_, err := b.deployments.Create(b.soon(), somebodys)
	b.ok(err)
	b.apply("taken", "web:v1", 1)
	_, err = b.gizmos.Until(b.soon(), "taken", func(o *Gizmo) bool {
		c := meta.FindStatusCondition(o.Status.Conditions, "Ready")
		return c != nil && c.Reason == "ReconcileFailed" && strings.Contains(c.Message, "already exists")
	})
	b.ok(err)
	b.ok(b.deployments.Delete(b.soon(), "taken"))
	b.untilReady("taken")
}

// TestValidation has the server refuse objects that make no sense.
func TestValidation(t *testing.T) {
	b := start(t)
	for name, spec := range map[string]GizmoSpec{
		"no-image": {Replicas: 1},
		"negative": {Image: "web:v1", Replicas: -1},
	} {
		o := &Gizmo{Spec: spec}
		o.Name = name
		if _, err := b.gizmos.Create(b.soon(), o); !apierrors.IsInvalid(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
