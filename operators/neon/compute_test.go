package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/pintle-go/pintle/internal/testport"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/internal/optest"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/pgtest"
	"github.com/pintle-go/pintle/operators/neon/internal/spec"
	"github.com/pintle-go/pintle/plan"
)

var standIn = optest.Binary{Package: "github.com/pintle-go/pintle/operators/neon/standin"}

// kubelet runs the compute of one endpoint while its StatefulSet asks for a pod, in place of
// the kubelet that simulated nodes do not have. The compute is the stand-in with a real
// PostgreSQL, and has the configuration and the arguments that the operator made.
type kubelet struct {
	*bench
	endpoint string
	dir      string
	program  string
	external int
	port     int // of PostgreSQL
	log      syncBuffer
	starts   int
}

type syncBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// startKubelet begins to run an endpoint's compute. It ends with the test.
func startKubelet(b *bench, endpoint string) *kubelet {
	b.Helper()
	k := &kubelet{bench: b, endpoint: endpoint, dir: pgtest.Dir(b.T), external: testport.Port(b.T), port: testport.Port(b.T)}
	k.program = filepath.Join(k.dir, "compute_ctl")
	content, err := os.ReadFile(standIn.Path(b.T))
	b.ok(err)
	b.ok(os.WriteFile(k.program, content, 0o755)) //nolint:gosec // PostgreSQL's account runs it
	b.hosts.set(endpoint+"-compute."+b.namespace+".svc:55433", k.address())
	b.hosts.set(endpoint+"-compute."+b.namespace+".svc:3080", "127.0.0.1:"+strconv.Itoa(k.external))
	b.route()
	text, err := os.ReadFile(b.hostsFile)
	b.ok(err)
	b.ok(os.WriteFile(filepath.Join(k.dir, "hosts.json"), text, 0o644)) //nolint:gosec // as above
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { k.follow(ctx) })
	b.Cleanup(func() {
		cancel()
		done.Wait()
		if b.Failed() {
			b.Logf("the compute says:\n%s", k.log.String())
		}
	})
	return k
}

// follow starts and stops the compute as the StatefulSet asks.
func (k *kubelet) follow(ctx context.Context) {
	sets := kube.For[appsv1.StatefulSet](k.client).In(k.namespace)
	wants := func(n int32) func(*appsv1.StatefulSet) bool {
		return func(s *appsv1.StatefulSet) bool { return s.Spec.Replicas != nil && *s.Spec.Replicas == n }
	}
	for ctx.Err() == nil {
		if _, err := sets.Until(ctx, k.endpoint+"-compute", wants(1)); err != nil {
			if ctx.Err() == nil {
				time.Sleep(100 * time.Millisecond) // it does not exist yet
			}
			continue
		}
		secret, err := kube.For[corev1.Secret](k.client).In(k.namespace).Get(ctx, k.endpoint+"-compute")
		if err != nil {
			continue
		}
		cmd, err := k.run(secret.Data["config.json"])
		if err != nil {
			_, _ = k.log.Write([]byte(err.Error()))
			return
		}
		over := make(chan struct{})
		go func() {
			_ = cmd.Wait() // its exit code says nothing
			close(over)
		}()
		suspend, cancel := context.WithCancel(ctx)
		go func() {
			defer cancel()
			_, _ = sets.Until(suspend, k.endpoint+"-compute", wants(0)) // or the test ends
		}()
		select {
		case <-over:
			cancel()
		case <-suspend.Done():
			k.stop(cmd, over)
		}
		<-suspend.Done()
	}
}

// address is that of PostgreSQL.
func (k *kubelet) address() string { return "127.0.0.1:" + strconv.Itoa(k.port) }

// run starts the compute with a configuration. A pod has an address of its own. This one shares
// that of the machine, so it has another port.
func (k *kubelet) run(config []byte) (*exec.Cmd, error) {
	const port, all = `"name":"port","value":"55433"`, `"name":"listen_addresses","value":"*"`
	if !bytes.Contains(config, []byte(port)) || !bytes.Contains(config, []byte(all)) {
		return nil, fmt.Errorf("the configuration does not have the expected port: %s", config)
	}
	config = bytes.ReplaceAll(config, []byte(port), fmt.Appendf(nil, `"name":"port","value":"%d"`, k.port))
	config = bytes.ReplaceAll(config, []byte(all), []byte(`"name":"listen_addresses","value":"127.0.0.1"`))
	file := filepath.Join(k.dir, "config.json")
	if err := os.WriteFile(file, config, 0o644); err != nil { //nolint:gosec // PostgreSQL's account reads it
		return nil, err
	}
	cmd := exec.Command(k.program, "-D", filepath.Join(k.dir, "data"), //nolint:gosec,noctx // it is stopped as a pod is
		"-C", fmt.Sprintf("postgresql://cloud_admin@127.0.0.1:%d/postgres", k.port), "-b", filepath.Join(pgtest.Bin(k.T), "postgres"),
		"--compute-id", k.endpoint, "-c", file, "--external-http-port", strconv.Itoa(k.external),
		"--internal-http-port", strconv.Itoa(k.external+1))
	cmd.Dir = k.dir
	cmd.Env = append(os.Environ(), "STANDIN_HOSTS="+filepath.Join(k.dir, "hosts.json"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: pgtest.Account(k.T)}
	cmd.Stdout, cmd.Stderr = &k.log, &k.log
	k.starts++
	return cmd, cmd.Start()
}

// stop ends the compute as the pod's preStop hook does.
func (k *kubelet) stop(cmd *exec.Cmd, over <-chan struct{}) {
	hook := exec.Command(filepath.Join(pgtest.Bin(k.T), "pg_ctl"), //nolint:gosec,noctx // it ends soon
		"stop", "-D", filepath.Join(k.dir, "data"), "-m", "fast", "-w")
	hook.SysProcAttr = &syscall.SysProcAttr{Credential: pgtest.Account(k.T)}
	hook.Dir = k.dir
	out, err := hook.CombinedOutput()
	if err != nil {
		_, _ = k.log.Write(append(out, err.Error()...))
	}
	select {
	case <-over:
		return
	case <-time.After(30 * time.Second):
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	<-over
}

// testEndpoint takes an endpoint of the branch "trunk" through its life.
func testEndpoint(b *bench) {
	role := new(api.NeonRole)
	role.Name, role.Spec.Branch = "app", "trunk"
	_, err := b.roles.Create(b.soon(), role)
	b.ok(err)
	content := new(api.NeonBranchDatabase)
	content.Name, content.Spec.Branch, content.Spec.Owner = "orders", "trunk", "app"
	_, err = b.contents.Create(b.soon(), content)
	b.ok(err)
	e := new(api.NeonEndpoint)
	e.Name, e.Spec.Branch, e.Spec.Type = "shop", "trunk", api.ReadWrite
	_, err = b.endpoints.Create(b.soon(), e)
	b.ok(err)
	k := startKubelet(b, "shop")
	b.endpointIs("shop", "Running")

	login, err := b.secrets.Until(b.soon(), "shop-app", func(s *corev1.Secret) bool { return string(s.Data["dbname"]) == "orders" })
	b.ok(err)
	if host := string(login.Data["host"]); host != "shop."+b.namespace+".svc" {
		b.Errorf("the host is %q", host)
	}
	b.sql(login, "create table lines (n int)", "insert into lines select generate_series(1, 100)")
	var verifier string
	b.query(login, &verifier, "select rolpassword from pg_authid where rolname = 'app'")
	if !spec.Verifies(verifier, string(login.Data["password"])) {
		b.Error("the role's password is not that of the Secret")
	}

	b.Log("another role comes without a restart")
	other := new(api.NeonRole)
	other.Name, other.Spec.Branch = "report", "trunk"
	_, err = b.roles.Create(b.soon(), other)
	b.ok(err)
	kubetest.Eventually(b.T, "the role report is there", func() error {
		var n int
		b.query(login, &n, "select count(*) from pg_roles where rolname = 'report'")
		if n != 1 {
			return fmt.Errorf("%d roles", n)
		}
		return nil
	})
	if k.starts != 1 {
		b.Errorf("the compute was started %d times", k.starts)
	}

	b.Log("a second writer is refused")
	second := new(api.NeonEndpoint)
	second.Name, second.Spec.Branch, second.Spec.Type = "second", "trunk", api.ReadWrite
	_, err = b.endpoints.Create(b.soon(), second)
	b.ok(err)
	until(b, b.endpoints, "second", endpointStatus, "says that there is a writer", func(e *api.NeonEndpoint) bool {
		for _, n := range e.Status.Nodes {
			if n.Name == "writer" && strings.Contains(n.Message, "NeonEndpoint shop writes to branch trunk") {
				return true
			}
		}
		return false
	})
	gone(b, b.endpoints, "second")

	b.Log("suspend and resume")
	b.suspend("shop", true)
	b.endpointIs("shop", "Suspended")
	kubetest.Eventually(b.T, "the compute is over, as before the end of a pod", func() error {
		c, err := net.Dial("tcp", k.address())
		if err != nil {
			return nil //nolint:nilerr // nothing listens
		}
		c.Close()
		return errors.New("it listens")
	})
	b.suspend("shop", false)
	b.endpointIs("shop", "Running")
	var n int
	b.query(login, &n, "select count(*) from lines")
	if n != 100 {
		b.Errorf("there are %d rows", n)
	}

	b.Log("a client wakes an idle endpoint")
	b.suspendAfter("shop", 5)
	b.endpointIs("shop", "Suspended")
	login, err = b.secrets.Until(b.soon(), "shop-app", func(s *corev1.Secret) bool {
		return string(s.Data["username"]) == "app.shop."+b.namespace
	})
	b.ok(err)
	begun := time.Now()
	b.proxied(login, &n, "select count(*) from lines")
	b.Logf("the client had its answer after %s", time.Since(begun).Round(time.Millisecond))
	if n != 100 {
		b.Errorf("there are %d rows", n)
	}

	b.Log("without a limit it is never idle, and resumes if it was")
	b.suspendAfter("shop", 0)
	b.endpointIs("shop", "Running")

	b.Log("a storage that is in trouble does not hold up a compute")
	b.pageservers(3) // the third never registers itself
	until(b, b.clusters, "main", clusterStatus, "is in trouble", func(c *api.NeonCluster) bool {
		return meta.IsStatusConditionFalse(c.Status.Conditions, "Ready") && c.Status.ObservedGeneration == c.Generation
	})
	b.suspend("shop", true)
	b.endpointIs("shop", "Suspended")
	b.suspend("shop", false)
	b.endpointIs("shop", "Running")
	b.pageservers(2)
	b.clusterReady("main")

	b.Log("the branch waits for its endpoint")
	b.ok(b.branches.Delete(b.soon(), "trunk"))
	until(b, b.branches, "trunk", func(t *api.NeonBranch) *plan.Status { return &t.Status.Status }, "is in use",
		func(t *api.NeonBranch) bool {
			for _, c := range t.Status.Conditions {
				if c.Type == "Ready" && c.Reason == "InUse" && strings.Contains(c.Message, "NeonEndpoints need it: shop") {
					return true
				}
			}
			return false
		})
	b.Log("which goes on, although the branch is being deleted")
	b.suspend("shop", true)
	b.endpointIs("shop", "Suspended")
	b.suspend("shop", false)
	b.endpointIs("shop", "Running")
	gone(b, b.endpoints, "shop")
}

func (b *bench) pageservers(count int32) {
	b.Helper()
	_, err := b.clusters.Modify(b.soon(), "main", func(c *api.NeonCluster) error {
		c.Spec.Pageservers.Count = count
		return nil
	})
	b.ok(err)
}

func clusterStatus(c *api.NeonCluster) *plan.Status { return &c.Status.Status }

func endpointStatus(e *api.NeonEndpoint) *plan.Status { return &e.Status.Status }

func (b *bench) endpointIs(name, phase string) {
	b.Helper()
	until(b, b.endpoints, name, endpointStatus, "is "+phase, func(e *api.NeonEndpoint) bool {
		return e.Status.Phase == phase && isReady(e, e.Status.Conditions)
	})
}

func (b *bench) suspend(name string, on bool) {
	b.Helper()
	_, err := b.endpoints.Modify(b.soon(), name, func(e *api.NeonEndpoint) error {
		e.Spec.Suspended = on
		return nil
	})
	b.ok(err)
}

func (b *bench) suspendAfter(name string, seconds int32) {
	b.Helper()
	_, err := b.endpoints.Modify(b.soon(), name, func(e *api.NeonEndpoint) error {
		e.Spec.SuspendAfterSeconds = seconds
		return nil
	})
	b.ok(err)
}

// connect logs in by a connection Secret, at the compute's own port.
func (b *bench) connect(login *corev1.Secret) *pgx.Conn {
	b.Helper()
	uri, err := url.Parse(string(login.Data["uri"]))
	b.ok(err)
	uri.Host, uri.RawQuery = b.hosts.resolve("shop-compute."+b.namespace+".svc:55433"), "sslmode=disable"
	c, err := pgx.Connect(b.soon(), uri.String())
	b.ok(err)
	return c
}

// proxied asks through the proxy, as the Secret has it. Only its host is not known to this machine.
func (b *bench) proxied(login *corev1.Secret, into any, query string) {
	b.Helper()
	uri, err := url.Parse(string(login.Data["uri"]))
	b.ok(err)
	if mode := uri.Query().Get("sslmode"); mode != "require" {
		b.Errorf("sslmode is %q", mode)
	}
	uri.Host = b.proxy
	c, err := pgx.Connect(b.soon(), uri.String())
	b.ok(err)
	defer c.Close(context.Background())
	b.ok(c.QueryRow(b.soon(), query).Scan(into))
}

func (b *bench) sql(login *corev1.Secret, statements ...string) {
	b.Helper()
	c := b.connect(login)
	defer c.Close(context.Background())
	for _, s := range statements {
		_, err := c.Exec(b.soon(), s)
		b.ok(err)
	}
}

func (b *bench) query(login *corev1.Secret, into any, query string) {
	b.Helper()
	c := b.connect(login)
	defer c.Close(context.Background())
	b.ok(c.QueryRow(b.soon(), query).Scan(into))
}
