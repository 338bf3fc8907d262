package main

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/pintle-go/pintle/cluster/internal/process"
	"github.com/pintle-go/pintle/cluster/internal/supervisor"
	"github.com/pintle-go/pintle/kubetest"
)

// An owner is a process that owns clusters.
type owner struct {
	t   *testing.T
	cmd *exec.Cmd
}

func newOwner(t *testing.T) owner {
	t.Helper()
	o := owner{t, exec.Command("sleep", "3600")}
	if err := o.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.end)
	return o
}

func (o owner) end() { _, _ = o.cmd.Process.Kill(), o.cmd.Wait() } // it may have ended

// upFor calls up --keep for an owner, and returns its exit status.
func (c cluster) upFor(o owner, keep string) int {
	c.t.Helper()
	args := []string{"up", "--ephemeral", "--nodes=1", fmt.Sprint("--owner=", o.cmd.Process.Pid), "--keep=" + keep}
	out, err := c.try(args...)
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.ExitCode() == statusOwned:
		return statusOwned
	}
	c.t.Fatalf("cluster %s: %v\n%s", strings.Join(args, " "), err, out)
	return -1
}

// left are objects that a test run leaves behind: one with a finalizer, one that a
// controller makes again and again, and objects without a namespace.
const left = `
{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "left"}}
---
{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
  "name": "left", "namespace": "left", "finalizers": ["example.com/never"]}}
---
{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "left", "namespace": "left"}, "spec": {
  "replicas": 20, "selector": {"matchLabels": {"a": "b"}}, "template": {
    "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}
---
{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "left"}, "rules": []}
---
{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
  "metadata": {"name": "lefts.example.com"}, "spec": {
  "group": "example.com", "scope": "Cluster", "names": {"plural": "lefts", "singular": "left", "kind": "Left"},
  "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}}
`

func (c cluster) leave() {
	c.t.Helper()
	cmd := c.command("kubectl", "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(left)
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("kubectl apply: %v\n%s", err, out)
	}
	c.run("kubectl", "wait", "--for=condition=Established", "crd/lefts.example.com")
	c.run("kubectl", "-n", "left", "rollout", "status", "deployment/left")
}

// found returns the objects that leave has made and that are still there.
func (c cluster) found() string {
	c.t.Helper()
	const kinds = "namespaces,configmaps,deployments,replicasets,pods,clusterroles,crds"
	out := c.output("kubectl", "get", kinds, "-A", "-o", "name")
	var found []string
	for line := range strings.Lines(out) {
		if strings.Contains(line, "left") {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return strings.Join(found, " ")
}

// A kept cluster stays without the objects of its owner, until another process adopts it.
func TestKeep(t *testing.T) {
	c := newCluster(t)
	first, second := newOwner(t), newOwner(t)
	c.upFor(first, "10m")
	supervisor := c.status().PID
	c.leave()
	if len(c.found()) == 0 {
		t.Fatal("no object is found")
	}
	if status := c.upFor(second, "10m"); status != statusOwned {
		t.Errorf("up for another process: exit status %d while the owner runs", status)
	}
	first.end()
	kubetest.Eventually(t, "the objects of the first owner are gone", func() error {
		if found := c.found(); found != "" {
			return fmt.Errorf("there is %s", found)
		}
		return nil
	})
	if status := c.upFor(second, "10m"); status != 0 {
		t.Fatalf("up after the owner has ended: exit status %d", status)
	}
	if record, err := c.dir.Record(); err != nil || record.Owner.PID != second.cmd.Process.Pid {
		t.Errorf("the recorded owner is %+v, %v", record.Owner, err)
	}
	if status := c.upFor(second, "10m"); status != 0 {
		t.Errorf("up for the owner itself: exit status %d", status)
	}
	c.leave() // as in a new cluster
	if now := c.status().PID; now != supervisor {
		t.Errorf("the supervisor was %d and is %d", supervisor, now)
	}
}

// A kept cluster that was damaged is replaced.
func TestKeptDamaged(t *testing.T) {
	c := newCluster(t)
	c.upFor(newOwner(t), "10m")
	for _, damage := range []struct {
		name string
		do   func()
	}{
		{"the API server is paused", func() { c.run("pause", "kube-apiserver") }},
		{"etcd is down", func() { c.run("kill", "etcd") }},
		{"the supervisor was killed", c.crash},
		{"the supervisor hangs", func() { c.signal(syscall.SIGSTOP) }},
	} {
		before := c.status().PID
		record, err := c.dir.Record()
		if err != nil {
			t.Fatal(err)
		}
		damage.do()
		if err := record.Owner.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		kubetest.Eventually(t, "the owner has ended", func() error {
			if record.Owner.Alive() {
				return fmt.Errorf("process %d runs", record.Owner.PID)
			}
			return nil
		})
		if status := c.upFor(newOwner(t), "10m"); status != 0 {
			t.Fatalf("%s: up: exit status %d", damage.name, status)
		}
		if after := c.status(); after.PID == before {
			t.Errorf("%s: the cluster is used again", damage.name)
		}
		c.run("kubectl", "get", "namespaces")
	}
}

// signal sends a signal to the supervisor.
func (c cluster) signal(signal syscall.Signal) {
	c.t.Helper()
	id, err := process.Identify(c.status().PID)
	if err == nil {
		err = id.Signal(signal)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// A kept cluster ends by itself.
func TestKeepExpires(t *testing.T) {
	c := newCluster(t)
	o := newOwner(t)
	c.upFor(o, "1s")
	o.end()
	kubetest.Eventually(t, "the cluster has ended", func() error {
		if running := c.processes(); c.dir.Exists() || len(running) > 0 {
			return fmt.Errorf("directory exists: %t, processes: %v", c.dir.Exists(), running)
		}
		return nil
	})
}

func TestKeepFlags(t *testing.T) {
	c := newCluster(t)
	for _, args := range [][]string{
		{"--keep=10m"}, {"--keep=10m", "--ephemeral"}, {"--keep=10m", "--owner=1"},
		{"--keep=-1s", "--ephemeral", "--owner=1"},
	} {
		c.fail("--keep", append([]string{"up"}, args...)...)
	}
}

// A simulated node that was taken for dead, because its supervisor stood still, is Ready again
// when the supervisor goes on.
func TestNodeComesBack(t *testing.T) {
	c := newCluster(t)
	c.run("up", "--ephemeral", "--nodes=1", "--controller-manager-arg=--node-monitor-grace-period=20s")
	condition := func() string {
		return c.output("kubectl", "get", "node", "simulated-0",
			`--output=jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
	}
	ready := func(want string) {
		t.Helper()
		kubetest.Eventually(t, "the condition Ready is "+want, func() error {
			if is := condition(); is != want {
				return fmt.Errorf("it is %s", is)
			}
			return nil
		})
	}
	id, err := process.Identify(c.status().PID)
	if err == nil {
		err = id.Signal(syscall.SIGSTOP)
	}
	if err != nil {
		t.Fatal(err)
	}
	ready("Unknown")
	if err := id.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	kubetest.Eventually(t, "the status says that all is ready", func() error {
		if s := c.status(); s.Phase != supervisor.Ready {
			return fmt.Errorf("it is %s: %v", s.Phase, s.NotReady)
		}
		return nil
	})
	if is := condition(); is != "True" {
		t.Errorf("the status says that all is ready, and the condition Ready is %s", is)
	}
	ready("True")
	kubetest.Eventually(t, "the status shows a node that is not Ready", func() error {
		c.run("kubectl", "patch", "node", "simulated-0", "--subresource=status", "--patch",
			`{"status":{"conditions":[{"type":"Ready","status":"False","reason":"Tested","message":"it is a test"}]}}`)
		s := c.status()
		if s.Phase == degraded && len(s.NotReady) == 1 && strings.HasPrefix(s.NotReady[0], "simulated-0 is not Ready since") {
			return nil
		}
		return fmt.Errorf("it is %s: %v", s.Phase, s.NotReady)
	})
	ready("True") // the node's next heartbeat says so
}
