package main

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/internal/optest"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/plan"
)

// TestTree follows a NeonCluster whose status it writes itself, until the cluster is deleted.
func TestTree(t *testing.T) {
	of := kubetest.Start(t, kubetest.Options{})
	client, ns := optest.Client(t, of.Config()), of.Namespace(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := crd.Install(ctx, client, api.Definitions...); err != nil {
		t.Fatal(err)
	}
	if err := follow(ctx, io.Discard, client, ns, "table/orders"); err == nil || !strings.Contains(err.Error(), `"table/orders"`) {
		t.Errorf("an unknown kind: %v", err)
	}
	if err := follow(ctx, io.Discard, client, ns, "orders"); err == nil {
		t.Error("a NeonDatabase that is not there has a tree")
	}
	clusters := kube.For[api.NeonCluster](client).In(ns)
	c := new(api.NeonCluster)
	c.Name, c.Spec.Image, c.Spec.ComputeImages = "orders", "neon:test", map[string]string{"17": "compute:test"}
	c.Spec.ObjectStore.Managed, c.Spec.ControllerDatabase.Managed = new(api.Managed), new(api.Volume)
	c.Spec.Safekeepers.Count, c.Spec.Pageservers.Count, c.Spec.DeletionPolicy = 3, 1, api.Delete
	c, err := clusters.Create(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	c.Status.Nodes = []plan.NodeStatus{{Name: "broker", State: plan.Waiting, Message: "0 of 1 replicas ready"}}
	if err := clusters.Status().Ensure(ctx, c); err != nil {
		t.Fatal(err)
	}
	out, in := io.Pipe()
	over := make(chan error, 1)
	go func() {
		over <- follow(ctx, in, client, ns, "cluster/orders")
		in.Close()
	}()
	line := make([]byte, 200)
	n, err := out.Read(line)
	if text := string(line[:n]); err != nil || !strings.Contains(text, "broker") || !strings.Contains(text, "0 of 1 replicas ready") {
		t.Errorf("the tree is %q, %v", text, err)
	}
	go io.Copy(io.Discard, out) //nolint:errcheck // it ends with the pipe
	if err := clusters.Delete(ctx, "orders"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-over:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("it goes on after the cluster is gone")
	}
}
