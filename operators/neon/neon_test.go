package main

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/s3test"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/lab"
)

// TestStorage takes a cluster, a project and branches through their lives, against stand-ins
// for Neon's programs.
func TestStorage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.storage = lab.New(t, lab.Config{Hooks: "http://" + b.hooks + "/clusters/" + b.namespace + "/main"})
	url, _ := s3test.Start(t, "data")
	b.secret("bucket", map[string]string{
		"AWS_ACCESS_KEY_ID": s3test.AccessKey, "AWS_SECRET_ACCESS_KEY": s3test.SecretKey,
	})
	b.secret("database", map[string]string{"url": b.storage.Postgres.URL})
	b.start()

	c := new(api.NeonCluster)
	c.Name = "main"
	c.Spec.Image, c.Spec.ComputeImages = "neon:test", map[string]string{"17": "compute:test"}
	c.Spec.ObjectStore.S3 = &api.S3{
		Bucket: "data", Region: "us-east-1", Endpoint: url, SecretName: "bucket",
	}
	c.Spec.ControllerDatabase.URL = &api.SecretKey{Name: "database", Key: "url"}
	volume := api.Volume{Storage: resource.MustParse("1Gi"), StorageClassName: &b.namespace}
	c.Spec.Safekeepers = api.Safekeepers{Count: 3, Volume: volume}
	c.Spec.Pageservers = api.Pageservers{Count: 2, DrainTimeoutSeconds: 300, Volume: volume}
	c.Spec.DeletionPolicy = api.Delete
	_, err := b.clusters.Create(b.soon(), c)
	b.ok(err)
	b.serve("main", 3, 2)
	b.clusterReady("main")

	p := new(api.NeonProject)
	p.Name, p.Spec.Cluster, p.Spec.PostgresVersion, p.Spec.Shards = "app", "main", 17, 1
	p.Spec.HistoryRetention, p.Spec.DeletionPolicy = "7 days", api.Delete
	_, err = b.projects.Create(b.soon(), p)
	b.ok(err)
	ready := b.projectReady("app")
	if len(ready.Status.Shards) != 1 || len(ready.Status.TenantID) != 32 {
		t.Errorf("the project's status is %+v", ready.Status)
	}

	root := new(api.NeonBranch)
	root.Name, root.Spec.Project, root.Spec.DeletionPolicy = "trunk", "app", api.Delete
	_, err = b.branches.Create(b.soon(), root)
	b.ok(err)
	trunk := b.branchReady("trunk")
	if len(trunk.Status.Safekeepers) != 3 || trunk.Status.SafekeepersGeneration != 1 {
		t.Errorf("the branch's status is %+v", trunk.Status)
	}
	twig := new(api.NeonBranch)
	twig.Name, twig.Spec.Project, twig.Spec.DeletionPolicy = "twig", "app", api.Delete
	twig.Spec.From = &api.BranchPoint{Branch: "trunk"}
	_, err = b.branches.Create(b.soon(), twig)
	b.ok(err)
	if s := b.branchReady("twig").Status; s.Parent != trunk.Status.TimelineID {
		t.Errorf("the parent is %q, want %q", s.Parent, trunk.Status.TimelineID)
	}

	b.Log("the operator is killed, and goes on")
	b.kill()
	b.start()

	testEndpoint(b)

	b.Log("a parent waits for its branches, a project for its branches")
	b.ok(b.projects.Delete(b.soon(), "app"))
	gone(b, b.branches, "twig")
	b.ok(b.branches.UntilGone(b.soon(), "trunk"))
	b.ok(b.projects.UntilGone(b.soon(), "app"))
	gone(b, b.clusters, "main")
}
