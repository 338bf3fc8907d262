package main

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/internal/optest"
)

// TestRealNode runs foo as it is shipped: its image, in a pod, from its manifests.
func TestRealNode(t *testing.T) {
	node := optest.StartRealNode(t)
	client := node.Client
	archive := filepath.Join(t.TempDir(), "foo.tar")
	optest.Go(t, "run", "github.com/pintle-go/pintle/operators/foo/image", "-o", archive)
	node.Load(t, archive)
	optest.Apply(
		t,
		client,
		"default",
		optest.Read(
			t, "foo/deploy/crd.yaml", "foo/deploy/rbac.yaml", "foo/deploy/deployment.yaml", "foo/deploy/service.yaml",
			"foo/sample.yaml",
		)...)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if _, err := kube.For[appsv1.Deployment](client).In("default").Until(ctx, "foo", func(d *appsv1.Deployment) bool {
		return d.Status.AvailableReplicas == 1
	}); err != nil {
		t.Fatal(err)
	}
	service, err := kube.For[corev1.Service](client).In("default").Get(ctx, "foo")
	if err != nil {
		t.Fatal(err)
	}
	expectBody(t, "http://"+service.Spec.ClusterIP+"/foos/good", 200,
		`{"namespace":"default","name":"good","spec":{"name":"good","info":"a helpful foo"}}`)
}
