package main

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/pintle-go/pintle/cluster/internal/process"
	"github.com/pintle-go/pintle/cluster/internal/state"
	"github.com/pintle-go/pintle/cluster/internal/supervisor"
	"github.com/pintle-go/pintle/internal/leak"
	"github.com/pintle-go/pintle/kubetest"
)

// The test binary also acts as the cluster command, including the supervisor, so the race
// detector sees them.
const roleVariable = "CLUSTER_TEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) == "command" {
		main()
		return
	}
	os.Exit(leak.Run(m))
}

// A cluster is a cluster in a directory of the test's own. Nothing of it is left after
// the test, even if the test crashes it.
type cluster struct {
	t   *testing.T
	dir state.Dir
}

func newCluster(t *testing.T) cluster {
	t.Helper()
	c := cluster{t: t, dir: state.Dir(filepath.Join(t.TempDir(), "cluster"))}
	t.Cleanup(func() {
		if t.Failed() && c.dir.Exists() {
			out, _ := c.try("logs")
			t.Logf("logs:\n%s", out)
		}
		c.run("down", "--delete")
		c.expectNoProcess()
	})
	return c
}

func (c cluster) command(args ...string) *exec.Cmd {
	program, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.Command(program, append([]string{"--dir", string(c.dir)}, args...)...)
	cmd.Env = append(os.Environ(), roleVariable+"=command")
	return cmd
}

func (c cluster) try(args ...string) (string, error) {
	out, err := c.command(args...).CombinedOutput()
	return string(out), err
}

// output returns the output of a command for other programs.
func (c cluster) output(args ...string) string {
	c.t.Helper()
	var said bytes.Buffer
	cmd := c.command(args...)
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		c.t.Fatalf("cluster %s: %v\n%s", strings.Join(args, " "), err, &said)
	}
	return string(out)
}

func (c cluster) run(args ...string) string {
	c.t.Helper()
	out, err := c.try(args...)
	if err != nil {
		c.t.Fatalf("cluster %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// fail runs a command that must fail with a message that contains say.
func (c cluster) fail(say string, args ...string) {
	c.t.Helper()
	out, err := c.try(args...)
	if err == nil || !strings.Contains(out, say) {
		c.t.Errorf("cluster %s: %v, does not say %q:\n%s", strings.Join(args, " "), err, say, out)
	}
}

func (c cluster) status() supervisor.Status {
	c.t.Helper()
	var s supervisor.Status
	if err := json.Unmarshal([]byte(c.output("status", "--json")), &s); err != nil {
		c.t.Fatal(err)
	}
	return s
}

func (c cluster) component(name string) supervisor.ComponentStatus {
	c.t.Helper()
	for _, component := range c.status().Components {
		if component.Name == name {
			return component
		}
	}
	c.t.Fatalf("there is no %s", name)
	return supervisor.ComponentStatus{}
}

// crash ends the supervisor as a crash does.
func (c cluster) crash() {
	c.t.Helper()
	id, err := process.Identify(c.status().PID)
	if err == nil {
		err = id.Signal(syscall.SIGKILL)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	// Its lock is let go when the last of its threads has ended.
	kubetest.Eventually(c.t, "the supervisor is gone", func() error {
		supervised, err := c.dir.Supervised()
		if err == nil && (id.Alive() || supervised) {
			err = fmt.Errorf("alive %t, with the lock %t", id.Alive(), supervised)
		}
		return err
	})
}

// processes returns the processes that have the cluster's directory in their command
// line. All components have it.
func (c cluster) processes() []string {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		c.t.Fatal(err)
	}
	var found []string
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err == nil && bytes.Contains(line, []byte(c.dir)) {
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

func (c cluster) expectNoProcess() {
	c.t.Helper()
	if left := c.processes(); len(left) > 0 {
		c.t.Errorf("processes are left:\n%s", strings.Join(left, "\n"))
	}
}

// awaitAPIServer waits until the API server is ready.
func (c cluster) awaitAPIServer() {
	c.t.Helper()
	kubetest.Eventually(c.t, "the API server is ready", func() error {
		out, err := c.try("kubectl", "get", "--raw", "/readyz")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

func TestLifecycle(t *testing.T) {
	c := newCluster(t)
	c.fail("there is no cluster", "status")
	c.fail("there is no cluster", "kubectl", "version")
	for _, args := range [][]string{{"pause", "etcd"}, {"compact"}} {
		c.fail("there is no cluster in "+string(c.dir)+": start one with up", args...)
	}

	if out := c.run("up"); !strings.Contains(out, "export KUBECONFIG="+c.dir.Kubeconfig()) {
		t.Errorf("up does not say where the kubeconfig is:\n%s", out)
	}
	first := c.status()
	t.Logf("API server ready after %s", first.ReadyAfter)
	if out := c.run("up"); !strings.Contains(out, "running already") {
		t.Errorf("second up:\n%s", out)
	}
	c.fail("other settings", "up", "--controllers=false")
	c.fail("unknown flag", "kubectl", "--no-such-flag")
	c.fail(`no component "apiserver": it has etcd, kube-apiserver,`, "pause", "apiserver")
	for _, component := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		if out := c.run("status"); !strings.Contains(out, component) {
			t.Errorf("status does not name %s:\n%s", component, out)
		}
		c.run("logs", component)
	}
	t.Run("version", c.testVersion)
	t.Run("security", c.testSecurity)
	c.run("kubectl", "create", "configmap", "kept", "--from-literal=a=b")

	c.run("down")
	c.expectNoProcess()
	c.fail("not running", "status")
	c.fail("is not running: start it with up", "start", "etcd")
	c.run("down")
	c.fail("--ephemeral would remove the objects kept in", "up", "--ephemeral")
	c.run("up")
	c.run("kubectl", "get", "configmap", "kept")
	if second := c.status(); second.Server != first.Server {
		t.Errorf("the server was %s and is %s: copies of the kubeconfig are wrong now", first.Server, second.Server)
	}

	c.crash()
	c.run("up")
	c.run("kubectl", "get", "configmap", "kept")

	// A paused program cannot see that its supervisor is gone.
	c.run("pause", "etcd")
	c.crash()
	c.run("down", "--delete")
	c.expectNoProcess()
	if _, err := os.Stat(string(c.dir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is there after down --delete: %v", err)
	}
}

func (c cluster) testVersion(t *testing.T) {
	var version struct {
		ClientVersion, ServerVersion struct{ GitVersion, Major, Minor string }
	}
	if err := json.Unmarshal([]byte(c.output("kubectl", "version", "--output=json")), &version); err != nil {
		t.Fatal(err)
	}
	want, err := builder().Version()
	if err != nil {
		t.Fatal(err)
	}
	if got := version.ServerVersion; got.GitVersion != want ||
		"v"+got.Major+"."+got.Minor != want[:strings.LastIndex(want, ".")] {
		t.Errorf("server version %+v, want %s", got, want)
	}
	if got := version.ClientVersion; got.GitVersion != want {
		t.Errorf("kubectl version %+v, want %s", got, want)
	}
}

func (c cluster) testSecurity(t *testing.T) {
	kubetest.Eventually(c.t, "the last hooks of the API server have ended", func() error {
		_, err := c.try("kubectl", "get", "--raw", "/readyz")
		return err
	})
	// Without credentials only the health paths are open.
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
	}}
	for path, want := range map[string]int{
		"/readyz": 200, "/livez": 200, "/healthz": 200,
		"/version": 401, "/api": 401, "/api/v1/namespaces/default/secrets": 401, "/metrics": 401, "/readyz/etcd": 401,
	} {
		response, err := client.Get(c.status().Server + path)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("anonymous GET %s: %d, want %d", path, response.StatusCode, want)
		}
	}

	// Each component has its own user, with the rights of its role.
	for user, subresource := range map[string][2]string{
		"system:kube-scheduler":          {"pods", "binding"},
		"system:kube-controller-manager": {"serviceaccounts", "token"},
	} {
		if out, err := c.try(
			"kubectl", "auth", "can-i", "create", subresource[0], "--subresource", subresource[1], "-A", "--as", user,
		); err != nil {
			t.Errorf("%s may not create %v: %s", user, subresource, out)
		}
		if out, err := c.try("kubectl", "auth", "can-i", "delete", "namespaces", "--as", user); err == nil {
			t.Errorf("%s may delete namespaces: %s", user, out)
		}
	}
	if out, err := c.try(
		"kubectl", "auth", "can-i", "get", "nodes", "--subresource=proxy", "--as", "kube-apiserver-kubelet-client",
	); err != nil {
		t.Errorf("the API server may not use kubelets: %s", out)
	}
	for _, file := range []string{c.dir.Kubeconfig(), c.dir.Path("pki", "ca.key")} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", file, info.Mode(), err)
		}
	}

	// Aggregated API servers learn their trusted authorities from this.
	for _, key := range []string{"client-ca-file", "requestheader-client-ca-file"} {
		out := c.output("kubectl", "-n", "kube-system", "get", "configmap", "extension-apiserver-authentication",
			"--output=jsonpath={.data."+key+"}")
		if !strings.Contains(out, "BEGIN CERTIFICATE") {
			t.Errorf("extension-apiserver-authentication has no %s: %q", key, out)
		}
	}

	// OwnerReferencesPermissionEnforcement: a user who may not change the owner's
	// finalizers may not block its deletion either.
	c.run("kubectl", "create", "clusterrole", "writer", "--verb=create", "--resource=configmaps")
	c.run("kubectl", "create", "clusterrolebinding", "writer", "--clusterrole=writer", "--user=writer")
	uid := c.output("kubectl", "get", "namespace", "default", "--output=jsonpath={.metadata.uid}")
	manifest := fmt.Sprintf(
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"owned","namespace":"default","ownerReferences":[
		{"apiVersion":"v1","kind":"Namespace","name":"default","uid":%q,"blockOwnerDeletion":true}]}}`,
		uid,
	)
	cmd := c.command("kubectl", "create", "--as=writer", "-f", "-")
	cmd.Stdin = strings.NewReader(manifest)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "blockOwnerDeletion") {
		t.Errorf("create with blockOwnerDeletion: %v\n%s", err, out)
	}
}

func TestSideBySide(t *testing.T) {
	clusters := []cluster{newCluster(t), newCluster(t)}
	var starting sync.WaitGroup
	for _, c := range clusters {
		starting.Go(func() {
			if out, err := c.try("up", "--controllers=false", "--ephemeral"); err != nil {
				t.Errorf("up: %v\n%s", err, out)
			}
		})
	}
	starting.Wait()
	for i, c := range clusters {
		c.run("kubectl", "create", "namespace", fmt.Sprint("only-", i))
	}
	for i, c := range clusters {
		if out := c.run("kubectl", "get", "namespaces"); strings.Contains(out, fmt.Sprint("only-", 1-i)) {
			t.Errorf("cluster %d sees the other's namespaces:\n%s", i, out)
		}
	}
	// The certificates of one cluster are not accepted by the other.
	server := "--server=" + clusters[0].status().Server
	clusters[1].fail("certificate", "kubectl", server, "get", "namespaces")
	clusters[1].fail("Unauthorized", "kubectl", server, "--insecure-skip-tls-verify", "get", "--raw", "/api")

	clusters[0].run("down")
	clusters[0].expectNoProcess()
	if clusters[0].dir.Exists() {
		t.Error("an ephemeral cluster's directory is there after down")
	}
	clusters[1].run("kubectl", "get", "namespaces")
}

func TestComponentEndsByItself(t *testing.T) {
	c := newCluster(t)
	c.run("up", "--controllers=false", "--ephemeral")
	before := c.component("kube-apiserver")
	id, err := process.Identify(before.PID)
	if err == nil {
		err = id.Signal(syscall.SIGKILL)
	}
	if err != nil {
		t.Fatal(err)
	}
	c.awaitAPIServer()
	after := c.component("kube-apiserver")
	if after.PID == before.PID || after.Restarts != 1 || !strings.Contains(after.LastEnd, "signal: killed") {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if out := c.run("logs", "supervisor"); !strings.Contains(out, "has ended and will be restarted") {
		t.Errorf("the supervisor says nothing of it:\n%s", out)
	}

	// The objects of a crashed ephemeral cluster must not be in the next one.
	c.run("kubectl", "create", "namespace", "old")
	c.crash()
	c.run("up", "--controllers=false", "--ephemeral")
	if out := c.run("kubectl", "get", "namespaces"); strings.Contains(out, "old") {
		t.Errorf("an ephemeral cluster has objects of an earlier one:\n%s", out)
	}
}

func TestBadComponentFlag(t *testing.T) {
	c := newCluster(t)
	c.fail("unknown flag: --no-such-flag", "up", "--ephemeral", "--apiserver-arg=--no-such-flag")
	c.expectNoProcess()
	if c.dir.Exists() {
		t.Error("the directory of an ephemeral cluster that did not start is there")
	}
}

func TestOwner(t *testing.T) {
	c := newCluster(t)
	owner := exec.Command("sleep", "3600")
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = owner.Process.Kill(), owner.Wait() }() // the test is over
	c.run("up", "--controllers=false", "--ephemeral", fmt.Sprint("--owner=", owner.Process.Pid))
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	kubetest.Eventually(t, "the cluster ends with its owner", func() error {
		if left := c.processes(); c.dir.Exists() || len(left) > 0 {
			return fmt.Errorf("directory %t, processes %q", c.dir.Exists(), left)
		}
		return nil
	})
}

// The supervisor is killed together with the owner. The next cluster that starts beside
// it removes the remains.
func TestPrune(t *testing.T) {
	old, next := newCluster(t), newCluster(t)
	next.dir = state.Dir(filepath.Join(filepath.Dir(string(old.dir)), "next"))
	owner := exec.Command("sleep", "3600")
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = owner.Process.Kill(), owner.Wait() }() // the test is over
	old.run("up", "--controllers=false", "--ephemeral", fmt.Sprint("--owner=", owner.Process.Pid))
	old.crash() // before its owner: otherwise it would see the owner end, and end the cluster in order
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait() // the owner was killed
	next.run("up", "--controllers=false", "--ephemeral", fmt.Sprint("--owner=", os.Getpid()))
	old.expectNoProcess()
	if old.dir.Exists() {
		t.Error("the files of a cluster without an owner are still there")
	}
	next.run("down")
}

func TestStuckSupervisor(t *testing.T) {
	c := newCluster(t)
	c.run("up", "--controllers=false", "--ephemeral")
	id, err := process.Identify(c.status().PID)
	if err == nil {
		err = id.Signal(syscall.SIGSTOP)
	}
	if err != nil {
		t.Fatal(err)
	}
	c.run("down")
	if id.Alive() {
		t.Error("the supervisor lives after down")
	}
	c.expectNoProcess()
	if c.dir.Exists() {
		t.Error("the directory of an ephemeral cluster is left")
	}
}

func TestForeground(t *testing.T) {
	c := newCluster(t)
	cmd := c.command("up", "--foreground", "--controllers=false", "--ephemeral")
	var output bytes.Buffer
	cmd.Stderr = &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.awaitAPIServer()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after an interrupt: %v\n%s", err, &output)
	}
	c.expectNoProcess()
	if c.dir.Exists() {
		t.Error("the directory of an ephemeral cluster is left")
	}
}
