package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/internal/program"
)

// requireVariable, set to 1, says that this machine must be able to run a real
// node: the test fails where it would be skipped.
const requireVariable = "PINTLE_REQUIRE_REAL_NODE"

// TestRealNode runs what is shipped as it is shipped: the image, in a pod, by
// the manifests.
func TestRealNode(t *testing.T) {
	dir := t.TempDir()
	command, archive, home := filepath.Join(dir, "cluster"), filepath.Join(dir, "foo.tar"), filepath.Join(dir, "state")
	goCommand(t, "build", "-o", command, "github.com/pintle-go/pintle/cluster")
	cluster := func(args ...string) (string, int) {
		t.Helper()
		p, err := program.Start(program.Spec{Path: command, Args: append([]string{"--dir=" + home}, args...)})
		if err != nil {
			t.Fatal(err)
		}
		code, err := p.Wait(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		lines, _ := p.Lines()
		return strings.Join(lines, "\n"), code
	}
	t.Cleanup(func() {
		if said, code := cluster("down", "--delete"); code != 0 {
			t.Errorf("down: %s", said)
		}
	})
	said, code := cluster("up", "--node=real", "--ephemeral", "--owner="+strconv.Itoa(os.Getpid()))
	if code != 0 && os.Getenv(requireVariable) != "1" {
		t.Skip(said)
	} else if code != 0 {
		t.Fatal(said)
	}
	goCommand(t, "run", "github.com/pintle-go/pintle/operators/foo/image", "-o", archive)
	if said, code := cluster("load", archive); code != 0 {
		t.Fatalf("load: %s", said)
	}

	client, err := kube.Config{Kubeconfig: filepath.Join(home, "kubeconfig"), FieldManager: "test"}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	apply(t, client, "default", read(t, "foo/deploy/crd.yaml", "foo/deploy/rbac.yaml", "foo/deploy/deployment.yaml", "foo/deploy/service.yaml", "foo/sample.yaml")...)
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

func goCommand(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", args[0], err, out)
	}
}
