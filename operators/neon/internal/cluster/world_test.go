package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/internal/optest"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/assassin"
	"github.com/pintle-go/pintle/operators/neon/internal/certmanager"
	"github.com/pintle-go/pintle/operators/neon/internal/s3test"
	standin "github.com/pintle-go/pintle/operators/neon/internal/standin/controller"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/lab"
	"github.com/pintle-go/pintle/operators/neon/internal/trust"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
	"github.com/pintle-go/pintle/plan"
)

const (
	tenantID = "11111111111111111111111111111111"
	otherID  = "22222222222222222222222222222222"
)

// world is a Kubernetes with simulated nodes, in which the operator keeps the NeonCluster
// "main". Stand-ins for Neon's programs run beside it: each is started when the pod of its
// program comes, and again when another pod takes its place.
type world struct {
	*testing.T
	of       *kubetest.Cluster
	client   *kube.Client
	ns       string
	clusters kube.Resource[api.NeonCluster]
	projects kube.Resource[api.NeonProject]
	branches kube.Resource[api.NeonBranch]
	secrets  kube.Resource[corev1.Secret]
	pods     kube.Resource[corev1.Pod]
	sets     kube.Resource[appsv1.StatefulSet]
	claims   kube.Resource[corev1.PersistentVolumeClaim]
	lab      *lab.Lab
	action   atomic.Int64         // of the last reconcile
	runs     map[string]types.UID // the pods whose programs run
	modes    map[string]lab.Mode  // of the programs
	away     map[string]bool      // the programs that are not started
	refused  atomic.Value         // the name of a StatefulSet whose changes are refused
	// controllers are the storage controllers, one after the other.
	controllers []*standin.Controller

	// certs are where the certificates of programs are, and foreign are the programs that have some
	// of another authority.
	certs   string
	foreign map[string]map[string][]byte
	terms   trust.Terms
	issuer  *issuer // plays cert-manager, nil if there is none

	mu    sync.Mutex
	hosts map[string]string

	operator *Operator
	stop     func()
	// assassin kills the operator, and then starts the next one. It is nil if nobody does.
	assassin *assassin.Assassin
	hire     func() *assassin.Assassin
}

// newWorld makes a cluster, and waits until it is ready.
func newWorld(t *testing.T, change func(*api.NeonCluster)) *world {
	t.Helper()
	return newWorldOf(t, trust.Terms{}, change)
}

// newWorldOf makes a cluster whose certificates have other times, in a world that is prepared first.
func newWorldOf(
	t *testing.T, terms trust.Terms, change func(*api.NeonCluster), prepare ...func(*world),
) *world {
	t.Helper()
	of := kubetest.Start(t, kubetest.Options{Nodes: 2})
	client, ns := optest.Client(t, of.Config()), of.Namespace(t)
	w := &world{
		T: t, of: of, ns: ns, clusters: kube.For[api.NeonCluster](client).In(ns),
		projects: kube.For[api.NeonProject](client).In(ns), branches: kube.For[api.NeonBranch](client).In(ns),
		secrets: kube.For[corev1.Secret](client).In(ns), pods: kube.For[corev1.Pod](client).In(ns),
		sets: kube.For[appsv1.StatefulSet](client).In(ns), claims: kube.For[corev1.PersistentVolumeClaim](client).In(ns),
		runs: map[string]types.UID{}, modes: map[string]lab.Mode{}, away: map[string]bool{}, hosts: map[string]string{},
		certs: t.TempDir(), foreign: map[string]map[string][]byte{}, terms: terms,
	}
	w.ok(crd.Install(t.Context(), client, api.Definitions...))
	// The world looks at these again and again.
	w.clusters.Open(t.Context())
	w.pods.Open(t.Context())
	w.secrets.Open(t.Context())
	w.volumes(client, 9)
	w.lab = lab.New(t, lab.Config{})
	w.lab.Resolve = w.resolve
	url, _ := s3test.Start(t, "data")
	w.secret("bucket", map[string]string{"AWS_ACCESS_KEY_ID": s3test.AccessKey, "AWS_SECRET_ACCESS_KEY": s3test.SecretKey})
	w.secret("database", map[string]string{"url": w.lab.Postgres.URL})

	c := new(api.NeonCluster)
	c.Name = "main"
	c.Spec.Image, c.Spec.ComputeImages = "neon:1", map[string]string{"17": "compute:test"}
	c.Spec.ObjectStore.S3 = &api.S3{Bucket: "data", Region: "us-east-1", Endpoint: url, SecretName: "bucket"}
	c.Spec.ControllerDatabase.URL = &api.SecretKey{Name: "database", Key: "url"}
	volume := api.Volume{Storage: resource.MustParse("1Gi"), StorageClassName: &w.ns}
	c.Spec.Safekeepers = api.Safekeepers{Count: 3, Volume: volume}
	c.Spec.Pageservers = api.Pageservers{Count: 2, DrainTimeoutSeconds: 300, Volume: volume}
	c.Spec.DeletionPolicy = api.Delete
	if change != nil {
		change(c)
	}
	if c.Spec.TLS != nil {
		w.lab.TLS = w.secure()
		if c.Spec.TLS.Issuer != nil {
			w.issuer = newIssuer(w, client)
		}
	}
	w.client = client
	_, err := w.clusters.Create(t.Context(), c)
	w.ok(err)
	for _, f := range prepare {
		f(w)
	}
	w.start()
	t.Cleanup(func() { w.stop() })
	w.ready()
	return w
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) secret(name string, data map[string]string) {
	w.Helper()
	s := &corev1.Secret{StringData: data}
	s.Name = name
	_, err := w.secrets.Create(w.Context(), s)
	w.ok(err)
}

// volumes makes volumes, which a local cluster with simulated nodes does not have.
func (w *world) volumes(client *kube.Client, n int) {
	w.Helper()
	class := &storagev1.StorageClass{Provisioner: "kubernetes.io/no-provisioner"}
	class.Name = w.ns
	_, err := kube.For[storagev1.StorageClass](client).Create(w.Context(), class)
	w.ok(err)
	volumes := kube.For[corev1.PersistentVolume](client)
	w.Cleanup(func() { _ = kube.For[storagev1.StorageClass](client).Delete(context.Background(), class.Name) })
	for i := range n {
		v := new(corev1.PersistentVolume)
		v.Name = fmt.Sprintf("%s-%d", w.ns, i)
		v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}
		v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		v.Spec.StorageClassName = class.Name
		v.Spec.HostPath = &corev1.HostPathVolumeSource{Path: "/nowhere"}
		_, err := volumes.Create(w.Context(), v)
		w.ok(err)
		w.Cleanup(func() { _ = volumes.Delete(context.Background(), v.Name) })
	}
}

// resolve returns the address of a name.
func (w *world) resolve(address string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if to, ok := w.hosts[address]; ok {
		return to
	}
	return address
}

// known makes a name known.
func (w *world) known(host string, port int, service string) {
	w.Helper()
	to := fmt.Sprintf("127.0.0.1:%d", w.lab.Port(w.T, service))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hosts[fmt.Sprintf("%s:%d", host, port)] = to
}

// start starts the operator, as a process of its own would.
func (w *world) start() {
	w.Helper()
	config := w.of.Config()
	config.Wrap(w.watched)
	client := optest.Client(w.T, config)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, w.resolve(address))
	}
	transport.DialContext = dial
	secrets := kube.For[corev1.Secret](client).In(w.ns)
	w.operator = &Operator{
		Clusters: kube.For[api.NeonCluster](client).In(w.ns), Projects: kube.For[api.NeonProject](client).In(w.ns),
		Branches: kube.For[api.NeonBranch](client).In(w.ns), Pods: kube.For[corev1.Pod](client).In(w.ns),
		Secrets: secrets, Services: kube.For[corev1.Service](client).In(w.ns),
		StatefulSets: kube.For[appsv1.StatefulSet](client).In(w.ns), Deployments: kube.For[appsv1.Deployment](client).In(w.ns),
		Policies: kube.For[networkingv1.NetworkPolicy](client).In(w.ns), Budgets: kube.For[policyv1.PodDisruptionBudget](client).In(w.ns),
		Clients: &Clients{Secrets: secrets, HTTP: &http.Client{Transport: transport}, Wrap: w.watched}, Hooks: "http://operator", Dial: dial,
		EmptiedAfter: 3 * time.Second, RemovalLimit: 8 * time.Second, Certificates: w.terms,
	}
	if w.issuer != nil {
		all := certmanager.All(client).In(w.ns)
		w.operator.Issued = &all
	}
	w.operator.Start()
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	w.operator.Branches.Open(ctx)
	w.operator.Secrets.Open(ctx) // the test reads the keys in it too, perhaps before the controller does
	clusters := w.operator.Controller()
	reconcile := clusters.Reconcile
	clusters.Reconcile = func(ctx context.Context, c *api.NeonCluster) (controller.Action, error) {
		action, err := reconcile(ctx, c)
		w.action.Store(int64(action))
		return action, err
	}
	go func() {
		over <- controller.Run(ctx, controller.Options{Logger: slog.New(slog.DiscardHandler)}, clusters)
	}()
	w.stop = func() {
		cancel()
		if err := <-over; err != nil {
			w.Errorf("the operator: %v", err)
		}
		transport.CloseIdleConnections()
		w.operator.Clients.CloseIdle()
		w.stop = func() {}
	}
}

// rests sees that a cluster which is ready is not reconciled again at once.
func (w *world) rests() {
	w.Helper()
	kubetest.Eventually(w, "the cluster rests", func() error {
		action := controller.Action(w.action.Load())
		if action != controller.Done && action < controller.After(time.Second) {
			return fmt.Errorf("it is reconciled again after %s", time.Duration(action))
		}
		return nil
	})
}

// restart ends the operator and starts another one.
func (w *world) restart() {
	w.Helper()
	w.stop()
	w.start()
}

// until waits, and runs the pods meanwhile.
func (w *world) until(what string, holds func(c *api.NeonCluster) bool) *api.NeonCluster {
	w.Helper()
	var c *api.NeonCluster
	defer func() {
		if w.Failed() {
			w.show(c)
		}
	}()
	kubetest.Eventually(w, what, func() (err error) {
		w.kubelet()
		w.succeed()
		c, err = w.clusters.Cached().Get(w.Context(), "main")
		if err != nil && !apierrors.IsNotFound(err) {
			w.Fatal(err)
		}
		if !holds(c) {
			return errors.New("the cluster is not so")
		}
		return nil
	})
	return c
}

func (w *world) show(c *api.NeonCluster) {
	w.Helper()
	if c == nil {
		return
	}
	w.Log("\n" + strings.Join(plan.Tree{}.Lines(&c.Status.Status, time.Now()), "\n"))
	w.Logf("%+v %+v turn %d roll %+v", c.Status.Safekeepers, c.Status.Pageservers, c.Status.SafekeeperTurn, c.Status.PageserverRoll)
	for _, condition := range c.Status.Conditions {
		w.Logf("%s %s %s: %s", condition.Type, condition.Status, condition.Reason, condition.Message)
	}
}

func (w *world) ready() *api.NeonCluster {
	w.Helper()
	return w.until("the cluster is ready", isReady)
}

func isReady(c *api.NeonCluster) bool {
	ready := meta.FindStatusCondition(c.Status.Conditions, "Ready")
	return ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == c.Generation &&
		c.Status.ObservedGeneration == c.Generation
}

// says returns a condition that holds when a node's message has a text.
func says(node, text string) func(*api.NeonCluster) bool {
	return func(c *api.NeonCluster) bool {
		return slices.ContainsFunc(c.Status.Nodes, func(n plan.NodeStatus) bool {
			return n.Name == node && strings.Contains(n.Message, text)
		})
	}
}

// evacuates returns a condition that holds when the condition Evacuating has a reason and a text.
func evacuates(reason, text string) func(*api.NeonCluster) bool {
	return func(c *api.NeonCluster) bool {
		e := meta.FindStatusCondition(c.Status.Conditions, evacuating)
		return e != nil && e.Reason == reason && strings.Contains(e.Message, text)
	}
}

func (w *world) change(change func(*api.NeonCluster)) {
	w.Helper()
	_, err := w.clusters.Modify(w.Context(), "main", func(c *api.NeonCluster) error {
		change(c)
		return nil
	})
	w.ok(err)
}

func (w *world) controller() *upstream.Controller {
	w.Helper()
	sc, err := w.operator.Clients.Controller(w.Context(), kube.Key{Namespace: w.ns, Name: "main"})
	w.ok(err)
	return sc
}

// timeline makes a tenant with one timeline, and the NeonProject and the NeonBranch of them.
func (w *world) timeline(id string, secondaries int) upstream.Location {
	w.Helper()
	sc := w.controller()
	w.ok(sc.CreateTenant(w.Context(), upstream.NewTenant{ID: id, Placement: upstream.Attached(secondaries)}))
	w.retried(func() error {
		_, err := sc.CreateTimeline(w.Context(), id, upstream.NewTimeline{ID: id})
		return err
	})
	at, err := sc.Locate(w.Context(), id, id)
	w.ok(err)
	p := new(api.NeonProject)
	p.Name, p.Spec.Cluster, p.Spec.PostgresVersion, p.Spec.Shards = "p"+id[:4], "main", 17, 1
	p.Spec.HistoryRetention, p.Spec.DeletionPolicy = "7 days", api.Delete
	_, err = w.projects.Create(w.Context(), p)
	w.ok(err)
	b := new(api.NeonBranch)
	b.Name, b.Spec.Project, b.Spec.DeletionPolicy = "b"+id[:4], p.Name, api.Delete
	b, err = w.branches.Create(w.Context(), b)
	w.ok(err)
	w.retried(func() error { // the operator marks the branch at the same time
		b, err := w.branches.Get(w.Context(), b.Name)
		if err != nil {
			return err
		}
		b.Status.TenantID, b.Status.TimelineID, b.Status.Safekeepers = id, id, slices.Sorted(slices.Values(at.Set))
		err = w.branches.Status().Update(w.Context(), b)
		return err
	})
	return at
}

// retried makes a request until it succeeds.
func (w *world) retried(request func() error) {
	w.Helper()
	kubetest.Eventually(w, "a request succeeds", func() error {
		err := request()
		if err != nil {
			w.kubelet()
		}
		return err
	})
}

func (w *world) located(id string) []int64 {
	w.Helper()
	var at upstream.Location
	w.retried(func() (err error) {
		at, err = w.controller().Locate(w.Context(), id, id)
		return err
	})
	return slices.Sorted(slices.Values(at.Set))
}

// empty empties the volume of a safekeeper.
func (w *world) empty(id int) {
	w.Helper()
	back := w.crash(fmt.Sprintf("safekeeper-%d", id))
	w.ok(os.RemoveAll(w.lab.KeeperDir(id)))
	back()
	w.kubelet()
}

// requests returns the requests of a method to paths of the storage controller that have a
// text, in order, also those before it was restarted.
func (w *world) requests(method, text string) (paths []string) {
	for _, c := range w.controllers {
		for _, r := range c.Faults.Requests() {
			if r.Method == method && strings.Contains(r.Path, text) {
				paths = append(paths, r.Path)
			}
		}
	}
	return paths
}
