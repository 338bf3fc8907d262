package branch_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/internal/leak"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/internal/optest"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/branch"
	"github.com/pintle-go/pintle/operators/neon/internal/cluster"
	"github.com/pintle-go/pintle/operators/neon/internal/project"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/lab"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
	"github.com/pintle-go/pintle/plan"
)

func TestMain(m *testing.M) {
	optest.Parallel(4)
	os.Exit(leak.Run(m))
}

// patience is the longest time that a step may take on a busy machine.
const patience = 3 * time.Minute

// world is a namespace of a real API server with a NeonCluster "main" that is ready, the
// stand-ins for its storage, and the controllers of projects and branches, within the test's
// process.
type world struct {
	*testing.T
	rest      *rest.Config
	client    *kube.Client
	namespace string
	lab       *lab.Lab
	// storage is the test's own client of the storage controller.
	storage *upstream.Controller
	// apiServer and outside, if they are set, see each request of the operator first.
	apiServer, outside func(r *http.Request, send http.RoundTripper) (*http.Response, error)
	// backoff is that of branches.
	backoff controller.Backoff

	projects  kube.Resource[api.NeonProject]
	branches  kube.Resource[api.NeonBranch]
	endpoints kube.Resource[api.NeonEndpoint]

	stop context.CancelFunc
	over sync.WaitGroup
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOf(t, kubetest.Options{})
}

// newWorldOf returns a world of a cluster with options.
func newWorldOf(t *testing.T, options kubetest.Options) *world {
	t.Helper()
	w := newNamespace(t, options)
	w.ok(crd.Install(w.soon(), w.client, api.Definitions...))
	w.lab = lab.New(t, lab.Config{Quiet: true})
	w.lab.StartController(t)
	w.storage = upstream.NewController(upstream.Config{
		URL: w.lab.URL(t, "controller"), HTTP: w.lab.HTTP, Sign: w.lab.Key.Sign, Timeout: patience,
	})
	w.lab.StartPageserver(t, 1)
	w.lab.WaitPageserver(t, 1)
	for id := 1; id <= 3; id++ {
		w.lab.StartSafekeeper(t, id)
		name := fmt.Sprintf("safekeeper-%d", id)
		w.ok(w.storage.Register(t.Context(), upstream.Registration{
			ID: int64(id), Region: "r", Version: 1, Host: "127.0.0.1", Port: w.lab.Port(t, name+"-pg"),
			HTTPPort: w.lab.Port(t, name), Zone: name,
		}))
	}
	w.lab.Controller.Heartbeat(t.Context())
	w.cluster()
	return w
}

// newNamespace returns a world without storage.
func newNamespace(t *testing.T, options kubetest.Options) *world {
	t.Helper()
	of := kubetest.Start(t, options)
	client, ns := optest.Client(t, of.Config()), of.Namespace(t)
	w := &world{
		T: t, rest: of.Config(), client: client, namespace: ns,
		projects: kube.For[api.NeonProject](client).In(ns), branches: kube.For[api.NeonBranch](client).In(ns),
		endpoints: kube.For[api.NeonEndpoint](client).In(ns),
	}
	t.Cleanup(w.kill)
	return w
}

// elsewhere returns another namespace for a test, with the same storage.
func (w *world) elsewhere(t *testing.T) *world {
	t.Helper()
	other := newNamespace(t, kubetest.Options{})
	other.lab, other.storage = w.lab, w.storage
	other.cluster()
	return other
}

// cluster makes the NeonCluster and its keys, in place of its controller.
func (w *world) cluster() {
	w.Helper()
	keys := &corev1.Secret{Data: map[string][]byte{"private.pem": w.lab.Key.PEM()}}
	keys.Name = cluster.KeysName("main")
	keys, err := kube.For[corev1.Secret](w.client).In(w.namespace).Create(w.soon(), keys)
	w.ok(err)
	clusters := kube.For[api.NeonCluster](w.client).In(w.namespace)
	c := new(api.NeonCluster)
	c.Name, c.Spec.Image, c.Spec.DeletionPolicy = "main", "neon:test", api.Delete
	c.Spec.ComputeImages = map[string]string{"17": "compute:test"}
	c.Spec.ObjectStore.Managed = new(api.Managed)
	c.Spec.ControllerDatabase.Managed = new(api.Volume)
	c.Spec.Safekeepers.Count, c.Spec.Pageservers.Count = 3, 1
	c.Spec.Pageservers.DrainTimeoutSeconds = 300
	c, err = clusters.Create(w.soon(), c)
	w.ok(err)
	controller.SetCondition(c, &c.Status.Conditions, metav1.Condition{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready", Message: "in place of its controller",
	})
	c.Status.ObservedGeneration = c.Generation
	c.Status.Nodes = []plan.NodeStatus{{
		Name: "keys", State: plan.Ready, Since: metav1.Now(), APIVersion: "v1", Kind: "Secret", Namespace: w.namespace, ObjectName: keys.Name, UID: keys.UID,
	}}
	w.ok(clusters.Status().Ensure(w.soon(), c))
}

// start runs the controllers, as a process of the operator does.
func (w *world) start() {
	w.Helper()
	config := rest.CopyConfig(w.rest)
	config.Wrap(func(to http.RoundTripper) http.RoundTripper { return hop{to, w.apiServer} })
	client, err := kube.Config{Rest: config, FieldManager: "neon"}.Connect()
	w.ok(err)
	transport := w.lab.HTTP.Transport.(*http.Transport).Clone()
	programs := map[string]int{cluster.ControllerHost("main", w.namespace): w.lab.Port(w.T, "controller")}
	for id := range 3 {
		programs[cluster.SafekeeperHost("main", w.namespace, int64(id+1))] = w.lab.Port(w.T, fmt.Sprintf("safekeeper-%d", id+1))
	}
	transport.DialContext = func(ctx context.Context, network, to string) (net.Conn, error) {
		name, _, err := net.SplitHostPort(to)
		if port := programs[name]; err == nil && port != 0 {
			return new(net.Dialer).DialContext(ctx, network, fmt.Sprintf("127.0.0.1:%d", port))
		}
		return nil, fmt.Errorf("dial %s: it is not a program of the storage", to)
	}
	clusters := kube.For[api.NeonCluster](client).In(w.namespace)
	clients := &cluster.Clients{
		Secrets: kube.For[corev1.Secret](client).In(w.namespace), Clusters: &clusters,
		HTTP: &http.Client{Transport: hop{transport, w.outside}},
	}
	// Other namespaces are other tests'.
	ofProjects, ofBranches := kube.For[api.NeonProject](client).In(w.namespace), kube.For[api.NeonBranch](client).In(w.namespace)
	projects := &project.Operator{
		Projects: ofProjects, Clusters: clusters, Branches: ofBranches, Clients: clients,
	}
	branches := &branch.Operator{
		Branches: ofBranches, Projects: ofProjects, Endpoints: kube.For[api.NeonEndpoint](client).In(w.namespace), Clients: clients,
	}
	projects.Start()
	branches.Start()
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	ofProject, ofBranch := projects.Controller(), branches.Controller()
	ofProject.Reads = append(ofProject.Reads, clients.Secrets)
	ofBranch.Backoff = w.backoff
	w.over.Go(func() {
		options := controller.Options{Grace: time.Millisecond, Logger: slog.New(slog.DiscardHandler)}
		if err := controller.Run(ctx, options, ofProject, ofBranch); err != nil && ctx.Err() == nil {
			w.Errorf("run the controllers: %v", err)
		}
		client.Close()
		transport.CloseIdleConnections()
	})
}

// kill ends the controllers, if they run.
func (w *world) kill() {
	if w.stop != nil {
		w.stop()
		w.over.Wait()
		w.stop = nil
	}
}

// hop is a transport whose requests somebody may see.
type hop struct {
	to  http.RoundTripper
	see func(r *http.Request, send http.RoundTripper) (*http.Response, error)
}

func (h hop) RoundTrip(r *http.Request) (*http.Response, error) {
	if h.see != nil {
		return h.see(r, h.to)
	}
	return h.to.RoundTrip(r)
}

func (w *world) soon() context.Context {
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	w.Cleanup(cancel)
	return ctx
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// project makes a NeonProject. change, if it is not nil, changes it before.
func (w *world) project(name string, change func(*api.NeonProject)) *api.NeonProject {
	w.Helper()
	p := new(api.NeonProject)
	p.Name, p.Spec.Cluster, p.Spec.PostgresVersion, p.Spec.Shards = name, "main", 17, 1
	p.Spec.HistoryRetention, p.Spec.DeletionPolicy = "7 days", api.Delete
	if change != nil {
		change(p)
	}
	p, err := w.projects.Create(w.soon(), p)
	w.ok(err)
	return p
}

func (w *world) projectReady(name string) *api.NeonProject {
	w.Helper()
	return until(w, w.projects, name, "is ready", projectStatus, func(p *api.NeonProject) bool {
		return isReady(p, p.Status.Conditions)
	})
}

// branch makes a NeonBranch, a root if from is empty.
func (w *world) branch(name, from string, change func(*api.NeonBranch)) *api.NeonBranch {
	w.Helper()
	b := new(api.NeonBranch)
	b.Name, b.Spec.Project, b.Spec.DeletionPolicy = name, "app", api.Delete
	if from != "" {
		b.Spec.From = &api.BranchPoint{Branch: from}
	}
	if change != nil {
		change(b)
	}
	b, err := w.branches.Create(w.soon(), b)
	w.ok(err)
	return b
}

func (w *world) branchReady(name string) *api.NeonBranch {
	w.Helper()
	return until(w, w.branches, name, "is ready", branchStatus, func(b *api.NeonBranch) bool {
		return isReady(b, b.Status.Conditions)
	})
}

// says waits until the condition Ready of a branch is false, and its message has a text.
func (w *world) says(name, text string) {
	w.Helper()
	until(w, w.branches, name, "says "+text, branchStatus, func(b *api.NeonBranch) bool {
		c := meta.FindStatusCondition(b.Status.Conditions, "Ready")
		return c != nil && c.Status == metav1.ConditionFalse && strings.Contains(c.Message, text)
	})
}

func (w *world) changeBranch(name string, change func(*api.NeonBranch)) {
	w.Helper()
	_, err := w.branches.Modify(w.soon(), name, func(b *api.NeonBranch) error {
		change(b)
		return nil
	})
	w.ok(err)
}

// timelines returns the timelines of a tenant, as the storage has them.
func (w *world) timelines(tenant string) map[string]upstream.Timeline {
	w.Helper()
	all, err := w.storage.Timelines(w.soon(), tenant)
	if upstream.IsNotFound(err) {
		return nil
	}
	w.ok(err)
	by := map[string]upstream.Timeline{}
	for _, t := range all {
		by[t.ID] = t
	}
	return by
}

// count returns the number of requests that the storage controller got with a method and a part
// of the path.
func (w *world) count(method, part string) (n int) {
	for _, r := range w.lab.Controller.Faults.Requests() {
		if r.Method == method && strings.Contains(r.Path, part) {
			n++
		}
	}
	return n
}

func projectStatus(p *api.NeonProject) *plan.Status { return &p.Status.Status }
func branchStatus(b *api.NeonBranch) *plan.Status   { return &b.Status.Status }

func isReady(o metav1.Object, conditions []metav1.Condition) bool {
	c := meta.FindStatusCondition(conditions, "Ready")
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == o.GetGeneration()
}

// until waits for an object, and shows the plan in its status if it does not come about.
func until[T any](
	w *world, objects kube.Resource[T], name, what string, status func(*T) *plan.Status, holds func(*T) bool,
) *T {
	w.Helper()
	o, err := objects.Until(w.soon(), name, holds)
	if err != nil {
		if is, _ := objects.Get(w.Context(), name); is != nil {
			w.Logf("%+v\n%s", status(is).Conditions, strings.Join(plan.Tree{}.Lines(status(is), time.Now()), "\n"))
		}
		w.Fatalf("wait until %s %s: %v", name, what, err)
	}
	return o
}

// gone deletes an object and waits until it is gone.
func gone[T any](w *world, objects kube.Resource[T], name string) {
	w.Helper()
	w.ok(objects.Delete(w.soon(), name))
	w.ok(objects.UntilGone(w.soon(), name))
}
