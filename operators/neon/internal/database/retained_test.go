package database

import (
	"context"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/plan"
)

// TestPolicyChangedLate deletes a NeonDatabase in the foreground right after its policy was changed,
// while no operator runs. Its children keep or delete the data as the last policy says, except for
// a cluster that somebody has taken from it, and those of a plan that is paused.
func TestPolicyChangedLate(t *testing.T) {
	t.Parallel()
	t.Run("Retain", func(t *testing.T) { changedLate(t, api.Delete, api.Retain, "false", api.Retain) })
	t.Run("Delete", func(t *testing.T) { changedLate(t, api.Retain, api.Delete, "false", api.Delete) })
	t.Run("paused, Retain", func(t *testing.T) { changedLate(t, api.Delete, api.Retain, "", api.Retain) })
	t.Run("paused, Delete", func(t *testing.T) { changedLate(t, api.Retain, api.Delete, "", api.Retain) })
}

// paused is the value of the annotation.
func changedLate(t *testing.T, first, last api.DeletionPolicy, paused string, want api.DeletionPolicy) {
	t.Parallel()
	ctx, op, again := ordered(t, first)
	hold(ctx, t, op.Clusters, "orders")
	hold(ctx, t, op.Projects, "orders")
	hold(ctx, t, op.Branches, "orders-main")
	_, err := op.NeonDatabases.Modify(ctx, "orders", func(d *api.NeonDatabase) error {
		d.Spec.DeletionPolicy = last
		d.Annotations = map[string]string{plan.Paused: paused}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	how := metav1.DeletePropagationForeground
	if err := op.NeonDatabases.Delete(ctx, "orders", metav1.DeleteOptions{PropagationPolicy: &how}); err != nil {
		t.Fatal(err)
	}
	_, err = op.NeonDatabases.Until(ctx, "orders", func(d *api.NeonDatabase) bool {
		return !slices.Contains(d.Finalizers, metav1.FinalizerDeleteDependents) // the garbage collector is done
	})
	if err != nil {
		t.Fatal(err)
	}
	if c, err := op.Clusters.Get(ctx, "orders"); err != nil || c.DeletionTimestamp != nil {
		t.Errorf("the garbage collector has deleted the cluster: %v", err)
	}
	op = again()
	b := deleting(ctx, t, op.Branches, "orders-main")
	p := deleting(ctx, t, op.Projects, "orders")
	c := deleting(ctx, t, op.Clusters, "orders")
	for kind, policy := range map[string]api.DeletionPolicy{
		"NeonBranch": b.Spec.DeletionPolicy, "NeonProject": p.Spec.DeletionPolicy, "NeonCluster": c.Spec.DeletionPolicy,
	} {
		if policy != want {
			t.Errorf("the policy of the %s that is being deleted is %s", kind, policy)
		}
	}
	if err := op.NeonDatabases.UntilGone(ctx, "orders"); err != nil {
		t.Error(err)
	}
}

// TestTakenCluster takes the cluster from a NeonDatabase, whose policy is then changed to Delete, and
// deletes both. The cluster keeps its data.
func TestTakenCluster(t *testing.T) {
	t.Parallel()
	ctx, op, again := ordered(t, api.Retain)
	_, err := op.Clusters.Modify(ctx, "orders", func(c *api.NeonCluster) error {
		delete(c.Annotations, plan.Mark)
		return nil
	})
	if err == nil {
		_, err = op.NeonDatabases.Modify(ctx, "orders", func(d *api.NeonDatabase) error {
			d.Spec.DeletionPolicy = api.Delete
			return nil
		})
	}
	if err == nil {
		err = op.NeonDatabases.Delete(ctx, "orders")
	}
	if err != nil {
		t.Fatal(err)
	}
	op = again()
	if err := op.NeonDatabases.UntilGone(ctx, "orders"); err != nil {
		t.Fatal(err)
	}
	c, err := op.Clusters.Get(ctx, "orders")
	if err != nil {
		t.Fatal(err)
	}
	if c.DeletionTimestamp != nil || c.Spec.DeletionPolicy != api.Retain {
		t.Errorf("the cluster has the policy %s, deleted %v", c.Spec.DeletionPolicy, c.DeletionTimestamp)
	}
}

// ordered has an operator make all objects of a NeonDatabase, and ends it. again starts another one, for
// the rest of the test.
func ordered(t *testing.T, policy api.DeletionPolicy) (ctx context.Context, op *Operator, again func() *Operator) {
	t.Helper()
	of := kubetest.Start(t, kubetest.Options{})
	client, ns := install(t, of), of.Namespace(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	op = operator(client, ns)
	stop := run(ctx, t, op)
	order(ctx, t, op, policy)
	if _, err := op.NeonDatabases.Until(ctx, "orders", hasEndpoint); err != nil {
		t.Fatal(err)
	}
	stop()
	return ctx, op, func() *Operator {
		t.Helper()
		op := operator(client, ns)
		t.Cleanup(run(ctx, t, op))
		return op
	}
}

func hasEndpoint(d *api.NeonDatabase) bool {
	return slices.ContainsFunc(d.Status.Nodes, func(n plan.NodeStatus) bool {
		return n.Name == "endpoint" && n.State == plan.Ready
	})
}

// order creates a NeonDatabase.
func order(ctx context.Context, t *testing.T, op *Operator, policy api.DeletionPolicy) {
	t.Helper()
	d := new(api.NeonDatabase)
	d.Name, d.Spec.ComputeImageRef, d.Spec.NeonImageRef = "orders", "compute:test", "neon:test"
	d.Spec.PostgresVersion, d.Spec.DeletionPolicy = "17", policy
	if _, err := op.NeonDatabases.Create(ctx, d); err != nil {
		t.Fatal(err)
	}
}

const finalizer = "example.com/test"

// hold keeps an object after its deletion.
func hold[T any, P interface {
	*T
	metav1.Object
}](ctx context.Context, t *testing.T, of kube.Resource[T], name string) {
	t.Helper()
	_, err := of.Modify(ctx, name, func(o *T) error {
		P(o).SetFinalizers(append(P(o).GetFinalizers(), finalizer))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// deleting waits until an object is being deleted, and lets it go.
func deleting[T any, P interface {
	*T
	metav1.Object
}](ctx context.Context, t *testing.T, of kube.Resource[T], name string) *T {
	t.Helper()
	o, err := of.Until(ctx, name, func(o *T) bool { return P(o).GetDeletionTimestamp() != nil })
	if err != nil {
		t.Fatal(err)
	}
	_, err = of.Modify(ctx, name, func(o *T) error {
		P(o).SetFinalizers(slices.DeleteFunc(P(o).GetFinalizers(), func(f string) bool { return f == finalizer }))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestSuccessor makes a NeonDatabase again while a cluster of the former one, which somebody has released
// from its finalizer, is being deleted. The cluster keeps the policy that it was deleted with.
func TestSuccessor(t *testing.T) {
	t.Parallel()
	ctx, op, again := ordered(t, api.Retain)
	hold(ctx, t, op.Clusters, "orders")
	if err := op.Clusters.Delete(ctx, "orders"); err != nil {
		t.Fatal(err)
	}
	_, err := op.NeonDatabases.Modify(ctx, "orders", func(d *api.NeonDatabase) error {
		d.Finalizers = nil
		return nil
	})
	if err == nil {
		err = op.NeonDatabases.Delete(ctx, "orders")
	}
	if err == nil {
		err = op.NeonDatabases.UntilGone(ctx, "orders")
	}
	if err != nil {
		t.Fatal(err)
	}
	op = again()
	order(ctx, t, op, api.Delete)
	_, err = op.NeonDatabases.Until(ctx, "orders", func(d *api.NeonDatabase) bool {
		return slices.ContainsFunc(d.Status.Nodes, func(n plan.NodeStatus) bool {
			return n.Name == "cluster" && (n.UID != "" || n.State == plan.Failed)
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	was := deleting(ctx, t, op.Clusters, "orders")
	if was.Spec.DeletionPolicy != api.Retain {
		t.Errorf("the policy of the cluster that is being deleted is %s", was.Spec.DeletionPolicy)
	}
	is, err := op.Clusters.Until(ctx, "orders", func(c *api.NeonCluster) bool { return c.UID != was.UID })
	if err != nil {
		t.Fatal(err)
	}
	if is.Spec.DeletionPolicy != api.Delete {
		t.Errorf("the policy of the new cluster is %s", is.Spec.DeletionPolicy)
	}
}
