package realnode

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pintle-go/pintle/cluster/image"
	"github.com/pintle-go/pintle/cluster/internal/build"
	"github.com/pintle-go/pintle/cluster/internal/process"
	"github.com/pintle-go/pintle/kubetest"
)

const webImage = "pintle.test/web:v1"

// web is a Deployment and its Service; farewell is a directory of the host.
func web(farewell string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: %s
        imagePullPolicy: Never
        env:
        - {name: SSL_CERT_FILE, value: /var/run/secrets/kubernetes.io/serviceaccount/ca.crt}
        - {name: FAREWELL, value: /farewell}
        ports: [{containerPort: 8080}]
        readinessProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 1}
        volumeMounts: [{name: farewell, mountPath: /farewell}]
      volumes:
      - {name: farewell, hostPath: {path: %q}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  type: NodePort
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
`, webImage, farewell)
}

func TestRealNode(t *testing.T) {
	requireRealNode(t)
	dir := t.TempDir()
	farewell := filepath.Join(t.TempDir(), "farewell")
	if err := os.Mkdir(farewell, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(farewell, 0o777); err != nil { // independent of the umask
		t.Fatal(err)
	}
	before := lookAround(t)

	c := startCluster(t, dir, &Node{})
	defer c.explain()
	loadWeb(t, c)
	c.apply(web(farewell))
	c.awaitAvailable("web")

	pods := strings.Fields(c.kubectl("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].metadata.name}"))
	ips := strings.Fields(c.kubectl("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].status.podIP}"))
	service := c.kubectl("get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
	inside := func(args ...string) (string, error) {
		return c.try(append([]string{"exec", pods[0], "--", "/web"}, args...)...)
	}
	exec := func(args ...string) string {
		t.Helper()
		out, err := inside(args...)
		if err != nil {
			t.Fatalf("%q in a pod: %v\n%s", args, err, out)
		}
		return out
	}

	t.Run("pods answer at their addresses", func(t *testing.T) {
		for i, ip := range ips {
			if got := fetch(t, "http://"+ip+":8080/"); got != pods[i] {
				t.Errorf("%s answered %q, want %q", ip, got, pods[i])
			}
		}
		if got := exec("get", "http://"+ips[1]+":8080/"); got != pods[1] {
			t.Errorf("from the other pod: %q, want %q", got, pods[1])
		}
	})
	t.Run("a Service answers", func(t *testing.T) {
		reached(t, pods, "from the host", func() (string, error) { return try("http://" + service + "/") })
		reached(
			t,
			pods,
			"from a pod, itself among the answers",
			func() (string, error) { return inside("get", "http://"+service+"/") },
		)
		node := c.kubectl("get", "node", Name, "-o", "jsonpath={.status.addresses[?(@.type=='InternalIP')].address}")
		port := c.kubectl("get", "service", "web", "-o", "jsonpath={.spec.ports[0].nodePort}")
		reached(t, pods, "at the node's port", func() (string, error) { return try("http://" + node + ":" + port + "/") })
	})
	t.Run("names resolve", func(t *testing.T) {
		kubetest.Eventually(t, "DNS answers", func() error {
			_, err := inside("lookup", "web")
			return err
		})
		for _, name := range []string{"web", "web.default", "web.default.svc.cluster.local"} {
			if got := exec("lookup", name); got != service {
				t.Errorf("%s is %q, want %s", name, got, service)
			}
		}
		reached(t, pods, "by name", func() (string, error) { return inside("get", "http://web/") })
		out, err := inside("lookup", "nothing.default.svc.cluster.local")
		if err == nil || !strings.Contains(out, "no such host") {
			t.Errorf("a name that is not there: %v\n%s", err, out)
		}
	})
	t.Run("pods reach the API server, and trust it", func(t *testing.T) {
		if got := exec("get", "https://kubernetes.default.svc/readyz"); got != "ok" {
			t.Errorf("readyz is %q", got)
		}
	})
	t.Run("pods reach what the host reaches", func(t *testing.T) {
		url, host := outside(t)
		if got := exec("get", url); got != host.String() {
			t.Errorf("they have the address %s, want the host's, %v", got, host)
		}
	})
	t.Run("logs", func(t *testing.T) {
		out := c.kubectl("logs", pods[0])
		if !strings.Contains(out, pods[0]+" serves") || !strings.Contains(out, "asked by ") {
			t.Errorf("logs: %q", out)
		}
	})
	t.Run("exec", func(t *testing.T) {
		if got := exec("env", "FAREWELL"); got != "/farewell" {
			t.Errorf("stdout is %q", got)
		}
		out, err := inside("nonsense")
		if err == nil || !strings.Contains(out, "unknown arguments") || !strings.Contains(out, "exit code 1") {
			t.Errorf("a program that fails: %v\n%s", err, out)
		}
	})
	t.Run("the node's certificate is good for this node alone", func(t *testing.T) { nodeIsHeldBack(t, c) })
	t.Run("port-forward", func(t *testing.T) { portForward(t, c, pods[1]) })
	t.Run("scale", func(t *testing.T) {
		c.kubectl("scale", "deployment", "web", "--replicas=5")
		kubetest.Eventually(t, "there are five replicas", func() error {
			if n := c.kubectl("get", "deployment", "web", "-o", "jsonpath={.status.availableReplicas}"); n != "5" {
				return fmt.Errorf("%s are available", n)
			}
			return nil
		})
	})
	t.Run("a deleted pod ends in order", func(t *testing.T) {
		c.kubectl("delete", "pod", pods[1])
		if _, err := os.Stat(filepath.Join(farewell, pods[1])); err != nil {
			t.Errorf("it did not say farewell: %v", err)
		}
		c.kubectl("scale", "deployment", "web", "--replicas=2")
		c.awaitAvailable("web")
	})

	// Pods that are already being deleted may never have started.
	last := strings.Fields(
		c.kubectl(
			"get", "pods", "-l", "app=web", "-o",
			"go-template={{range .items}}{{if not .metadata.deletionTimestamp}}{{.metadata.name}} {{end}}{{end}}",
		),
	)
	start := time.Now()
	c.end()
	t.Logf("ended after %v", time.Since(start).Round(100*time.Millisecond))
	t.Run("the end leaves nothing", func(t *testing.T) {
		nothingLeft(t, dir, before)
		for _, pod := range last {
			if _, err := os.Stat(filepath.Join(farewell, pod)); err != nil {
				t.Errorf("a container was not asked to end: %v", err)
			}
		}
	})

	c = startCluster(t, dir, &Node{})
	t.Run("the next start finds its pods again", func(t *testing.T) {
		defer func() { c.t = t; c.explain() }()
		service := c.kubectl("get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
		kubetest.Eventually(t, "the Service answers again", func() error {
			_, err := try("http://" + service + "/")
			return err
		})
		c.kubectl("delete", "deployment,service", "web")
		kubetest.Eventually(t, "the pods are gone", func() error {
			if left := c.kubectl("get", "pods", "-l", "app=web", "-o", "name"); left != "" {
				return errors.New(left)
			}
			return nil
		})
		if _, err := try("http://" + service + "/"); err == nil {
			t.Error("a deleted Service answers")
		}
	})
	c.end()
	nothingLeft(t, dir, before)
}

// Two clusters share nothing: each has its own names, addresses and rules, and they may
// have the same objects. The second one runs its containers with crun.
func TestTwoRealNodes(t *testing.T) {
	requireRealNode(t)
	before := lookAround(t)
	farewell := t.TempDir()
	runtimes := map[string]string{"runc": "", "crun": ""}
	for name := range runtimes {
		path, err := lookPath(name)
		if err != nil && os.Getenv(requireVariable) == "1" {
			t.Fatal(err)
		}
		runtimes[name] = path // any existing runtime, if this one is missing
	}
	clusters := map[string]*testCluster{}
	for name, path := range runtimes {
		c := startCluster(t, t.TempDir(), &Node{Runtime: path})
		defer c.explain()
		loadWeb(t, c)
		c.apply(web(farewell))
		clusters[name] = c
	}
	services := map[string]bool{}
	for name, c := range clusters {
		c.awaitAvailable("web")
		pods := strings.Fields(c.kubectl("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].metadata.name}"))
		service := c.kubectl("get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
		services[service] = true
		reached(t, pods, name, func() (string, error) { return try("http://" + service + "/") })
		if got := c.kubectl("exec", pods[0], "--", "/web", "lookup", "web"); got != service {
			t.Errorf("%s: web is %q, want %s", name, got, service)
		}
	}
	if len(services) != 2 {
		t.Errorf("the clusters' Services share an address: %v", services)
	}
	clusters["runc"].end()
	nothingLeft(t, clusters["runc"].dir, before)
	other := clusters["crun"]
	other.kubectl("create", "configmap", "later")
	other.kubectl("scale", "deployment", "web", "--replicas=3")
	other.awaitAvailable("web")
	other.end()
	nothingLeft(t, other.dir, before)
}

// The supervisor of a cluster is killed, and its remains are cleaned up.
func TestClean(t *testing.T) {
	requireRealNode(t)
	before := lookAround(t)
	dir := t.TempDir()
	for _, p := range build.Programs {
		program(t, p)
	}

	cmd := exec.Command(os.Args[0], "-test.run=^TestCleanHelper$", "-test.v")
	cmd.Env = append(os.Environ(), helperVariable+"=cluster", dirVariable+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	server := ""
	for lines.Scan() && !strings.Contains(lines.Text(), helperReady) {
		t.Log(lines.Text())
		if _, address, ok := strings.Cut(lines.Text(), "server=https://"); ok {
			server = address
		}
	}
	kill(t, cmd)

	pids, err := nodeCgroup(clusterID(dir)).pids()
	if err != nil {
		t.Fatal(err)
	}
	if len(pids) == 0 {
		t.Error("nothing is left of a killed cluster, so there is nothing to test")
	}
	for range 2 { // the second call finds nothing to do
		if _, err := process.Sweep(dir); err != nil { // of the control plane
			t.Fatal(err)
		}
		if err := Clean(dir); err != nil {
			t.Fatal(err)
		}
		nothingLeft(t, dir, before)
	}

	// Another program has the port, if only this one, so the next API server has another one. Pods find it all
	// the same.
	if other, err := net.Listen("tcp", server); err == nil {
		defer other.Close()
	}
	c := startCluster(t, dir, &Node{})
	defer c.explain()
	kubetest.Eventually(t, "the pod runs again", func() error {
		out, err := c.try("get", "pod", "web", "-o", "jsonpath={.status.podIP}")
		if err == nil {
			out, err = try("http://" + out + ":8080/")
		}
		if err == nil && out != "web" {
			err = errors.New(out)
		}
		return err
	})
}

const helperReady = "helper is ready"

// TestCleanHelper runs a cluster until TestClean kills it.
func TestCleanHelper(t *testing.T) {
	if os.Getenv(helperVariable) != "cluster" {
		return
	}
	dir := os.Getenv(dirVariable)
	c := startCluster(t, dir, &Node{})
	loadWeb(t, c)
	defer c.explain()
	c.kubectl("run", "web", "--image="+webImage, "--image-pull-policy=Never", "--env=FAREWELL=")
	c.awaitReady("web")
	fmt.Println(helperReady)
	time.Sleep(10 * time.Minute) // until it is killed
}

func loadWeb(t *testing.T, c *testCluster) {
	t.Helper()
	result, err := LoadMain(t.Context(), c.dir, image.Options{Package: "./testdata/web", Name: webImage})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("image: %d bytes", result.Size)
}

func (c *testCluster) awaitAvailable(deployment string) {
	c.t.Helper()
	start := time.Now()
	c.kubectl("rollout", "status", "deployment", deployment, "--timeout=120s")
	c.t.Logf("%s is available after %v", deployment, time.Since(start).Round(100*time.Millisecond))
}

func (c *testCluster) awaitReady(pod string) {
	c.t.Helper()
	kubetest.Eventually(c.t, "pod "+pod+" is ready", func() error {
		out, err := c.try("get", "pod", pod, "-o", "jsonpath={.status.conditions[?(@.type=='Ready')].status}")
		if err != nil || out != "True" {
			return fmt.Errorf("it is %s: %w", out, cmp.Or(err, errNotYet))
		}
		return nil
	})
}

// reached sends requests until each pod has answered. The first requests may fail,
// because kube-proxy applies changes up to a second late.
func reached(t *testing.T, pods []string, how string, ask func() (string, error)) {
	t.Helper()
	missing := map[string]bool{}
	for _, pod := range pods {
		missing[pod] = true
	}
	var last error
	for start := time.Now(); len(missing) > 0; {
		if time.Since(start) > time.Minute {
			t.Fatalf("%s: %v have not answered: %v", how, missing, last)
		}
		var pod string
		pod, last = ask()
		delete(missing, pod)
	}
}

func portForward(t *testing.T, c *testCluster, pod string) {
	cmd := c.command("port-forward", "pod/"+pod, ":8080")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer kill(t, cmd)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(line, "Forwarding from ")
	address, _, _ := strings.Cut(rest, " ")
	if got := fetch(t, "http://"+address+"/"); got != pod {
		t.Errorf("%s answered %q, want %q", address, got, pod)
	}
}

func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("it had ended before it was killed")
	}
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	body, err := try(url)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func try(url string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	// Each request needs a connection of its own, because a Service balances connections.
	// A transport continues to dial after its caller has given up.
	dialer := net.Dialer{Timeout: time.Second}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dialer.DialContext}}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}
