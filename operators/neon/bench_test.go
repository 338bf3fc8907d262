package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/internal/testport"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/internal/optest"
	"github.com/pintle-go/pintle/operators/internal/program"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/cluster"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/lab"
	"github.com/pintle-go/pintle/plan"
)

var binary = optest.Binary{Package: "github.com/pintle-go/pintle/operators/neon"}

func TestMain(m *testing.M) {
	optest.Parallel(4)
	optest.Main(m, &binary, &standIn)
}

// patience is the longest time that a step may take on a busy machine.
const patience = 3 * time.Minute

// bench is a namespace of a cluster with simulated nodes. Stand-ins for Neon's programs run
// beside it, because simulated pods run nothing. The operator reaches them by the names of
// the cluster's services.
type bench struct {
	*testing.T
	client     *kube.Client
	config     *rest.Config
	kubeconfig string
	namespace  string
	hooks      string // the operator's address
	proxy      string // and that of its proxy
	hosts      *hostMap
	hostsFile  string
	storage    *lab.Lab
	operator   *program.Program

	clusters  kube.Resource[api.NeonCluster]
	projects  kube.Resource[api.NeonProject]
	branches  kube.Resource[api.NeonBranch]
	endpoints kube.Resource[api.NeonEndpoint]
	roles     kube.Resource[api.NeonRole]
	contents  kube.Resource[api.NeonBranchDatabase]
	secrets   kube.Resource[corev1.Secret]
}

// hostMap has the addresses at which the services really are, by those that the operator knows.
type hostMap struct {
	mu sync.Mutex
	of map[string]string
}

func (h *hostMap) set(address, to string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.of == nil {
		h.of = map[string]string{}
	}
	h.of[address] = to
}

// resolve returns where an address is, or the address itself if that is not known.
func (h *hostMap) resolve(address string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return cmp.Or(h.of[address], address)
}

// text returns all addresses as the operator reads them.
func (h *hostMap) text(t *testing.T) []byte {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	text, err := json.Marshal(h.of)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// newBench starts a cluster that no other test uses, because the operator serves all namespaces.
func newBench(t *testing.T) *bench {
	t.Helper()
	of := kubetest.Start(t, kubetest.Options{Private: true, Nodes: 2})
	client, ns := optest.Client(t, of.Config()), of.Namespace(t)
	b := &bench{
		T: t, client: client, config: of.Config(), namespace: ns, kubeconfig: optest.Kubeconfig(t, of.Config(), ns, ""),
		hooks: testport.Address(t), hosts: new(hostMap),
		proxy:     testport.Address(t),
		hostsFile: filepath.Join(t.TempDir(), "hosts.json"),
		clusters:  kube.For[api.NeonCluster](client).In(ns), projects: kube.For[api.NeonProject](client).In(ns),
		branches: kube.For[api.NeonBranch](client).In(ns), endpoints: kube.For[api.NeonEndpoint](client).In(ns),
		roles: kube.For[api.NeonRole](client).In(ns), contents: kube.For[api.NeonBranchDatabase](client).In(ns),
		secrets: kube.For[corev1.Secret](client).In(ns),
	}
	b.ok(crd.Install(b.soon(), client, api.Definitions...))
	b.volumes(6)
	return b
}

// volumes makes volumes, which a local cluster with simulated nodes does not have.
func (b *bench) volumes(n int) {
	b.Helper()
	class := &storagev1.StorageClass{Provisioner: "kubernetes.io/no-provisioner"}
	class.Name, class.AllowVolumeExpansion = b.namespace, new(true)
	_, err := kube.For[storagev1.StorageClass](b.client).Create(b.soon(), class)
	b.ok(err)
	volumes := kube.For[corev1.PersistentVolume](b.client)
	b.Cleanup(func() {
		_ = kube.For[storagev1.StorageClass](b.client).Delete(context.Background(), class.Name)
	})
	for i := range n {
		v := new(corev1.PersistentVolume)
		v.Name = fmt.Sprintf("%s-%d", b.namespace, i)
		v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}
		v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		v.Spec.StorageClassName = class.Name
		v.Spec.HostPath = &corev1.HostPathVolumeSource{Path: "/nowhere"}
		_, err := volumes.Create(b.soon(), v)
		b.ok(err)
		b.Cleanup(func() { _ = volumes.Delete(context.Background(), v.Name) })
	}
}

func (b *bench) soon() context.Context {
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	b.Cleanup(cancel)
	return ctx
}

func (b *bench) ok(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// start starts the operator.
func (b *bench) start() {
	b.Helper()
	b.route()
	b.operator = binary.Run(b.T, b.kubeconfig, "-addr="+b.hooks, "-hooks=http://"+b.hooks,
		"-hosts="+b.hostsFile, "-proxy="+b.proxy)
	optest.Expect(b.T, b.operator, "controller runs", "controller=neoncluster")
}

// kill ends the operator as a failing machine does.
func (b *bench) kill() {
	b.Helper()
	b.ok(b.operator.Signal(os.Kill))
	<-b.operator.Done()
}

// route tells the operator where the services are.
func (b *bench) route() {
	b.Helper()
	b.ok(os.WriteFile(b.hostsFile+".new", b.hosts.text(b.T), 0o600))
	b.ok(os.Rename(b.hostsFile+".new", b.hostsFile))
}

// serve starts the stand-ins for a cluster's programs when the operator has made its keys.
func (b *bench) serve(name string, safekeepers, pageservers int) {
	b.Helper()
	keys, err := b.secrets.Until(b.soon(), cluster.KeysName(name), func(s *corev1.Secret) bool { return len(s.Data) > 0 })
	b.ok(err)
	key, err := cluster.ParseKeys(keys)
	b.ok(err)
	host := func(component string) string { return name + "-" + component + "." + b.namespace + ".svc" }
	known := func(host string, port int, service string) {
		b.hosts.set(fmt.Sprintf("%s:%d", host, port), fmt.Sprintf("127.0.0.1:%d", b.storage.Port(b.T, service)))
	}
	b.storage.Trust(b.T, key)
	b.storage.Resolve = b.hosts.resolve
	known(host("controller"), cluster.ControllerPort, "controller")
	known(host("broker"), cluster.BrokerPort, "broker")
	for id := 1; id <= safekeepers; id++ {
		service := fmt.Sprintf("safekeeper-%d", id)
		known(host(service), cluster.SafekeeperHTTPPort, service)
		known(host(service), cluster.SafekeeperPort, service+"-pg")
	}
	for id := 1; id <= pageservers; id++ {
		service := fmt.Sprintf("pageserver-%d", id)
		known(host(service), cluster.PageserverHTTPPort, service)
		known(host(service), cluster.PageserverPort, service+"-pg")
	}
	b.route()
	b.storage.StartController(b.T)
	for id := 1; id <= safekeepers; id++ {
		b.storage.StartSafekeeper(b.T, id)
	}
	for id := 1; id <= pageservers; id++ {
		b.storage.StartPageserver(b.T, id)
	}
}

// secret makes a Secret.
func (b *bench) secret(name string, data map[string]string) {
	b.Helper()
	s := &corev1.Secret{StringData: data}
	s.Name = name
	_, err := b.secrets.Create(b.soon(), s)
	b.ok(err)
}

// until waits for an object, and shows the plan in its status if it does not come about.
func until[T any](b *bench, objects kube.Resource[T], name string, of func(*T) *plan.Status, what string, holds func(*T) bool) *T {
	b.Helper()
	o, err := objects.Until(b.soon(), name, holds)
	if err != nil {
		if is, _ := objects.Get(b.Context(), name); is != nil {
			b.Log("\n" + strings.Join(plan.Tree{}.Lines(of(is), time.Now()), "\n"))
		}
		b.Fatalf("wait until %s %s: %v", name, what, err)
	}
	return o
}

func isReady(o metav1.Object, conditions []metav1.Condition) bool {
	c := meta.FindStatusCondition(conditions, "Ready")
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == o.GetGeneration()
}

func (b *bench) clusterReady(name string) *api.NeonCluster {
	b.Helper()
	return until(b, b.clusters, name, func(c *api.NeonCluster) *plan.Status { return &c.Status.Status }, "is ready",
		func(c *api.NeonCluster) bool { return isReady(c, c.Status.Conditions) })
}

func (b *bench) projectReady(name string) *api.NeonProject {
	b.Helper()
	return until(b, b.projects, name, func(p *api.NeonProject) *plan.Status { return &p.Status.Status }, "is ready",
		func(p *api.NeonProject) bool { return isReady(p, p.Status.Conditions) })
}

func (b *bench) branchReady(name string) *api.NeonBranch {
	b.Helper()
	return until(b, b.branches, name, func(p *api.NeonBranch) *plan.Status { return &p.Status.Status }, "is ready",
		func(p *api.NeonBranch) bool { return isReady(p, p.Status.Conditions) })
}

// delete deletes an object and waits until it is gone.
func gone[T any](b *bench, objects kube.Resource[T], name string) {
	b.Helper()
	if err := objects.Delete(b.soon(), name); err != nil && !apierrors.IsNotFound(err) {
		b.Fatal(err)
	}
	b.ok(objects.UntilGone(b.soon(), name))
}
