package endpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/internal/optest"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/cluster"
	"github.com/pintle-go/pintle/operators/neon/internal/spec"
	"github.com/pintle-go/pintle/operators/neon/internal/token"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
	"github.com/pintle-go/pintle/plan"
)

// patience is the longest time that a step may take on a busy machine.
const patience = 2 * time.Minute

// world is a namespace of a cluster with simulated nodes, whose NeonCluster, NeonProject and
// NeonBranches are as their controllers would have them. Scripted computes play those in the
// pods.
type world struct {
	testing.TB
	of        *kubetest.Cluster
	client    *kube.Client
	namespace string
	outside   *outside
	// turned, if it is set, hears of the turns of endpoints.
	turned func(*api.NeonEndpoint, controller.Action, error)
	// requests, if it is set, wraps the operator's requests to the API server.
	requests func(*rest.Config)

	endpoints kube.Resource[api.NeonEndpoint]
	branches  kube.Resource[api.NeonBranch]
	pods      kube.Resource[corev1.Pod]
	sets      kube.Resource[appsv1.StatefulSet]
	secrets   kube.Resource[corev1.Secret]
	leases    kube.Resource[coordinationv1.Lease]
	roles     kube.Resource[api.NeonRole]
}

func newWorld(t testing.TB) *world {
	t.Helper()
	of := kubetest.Start(t, kubetest.Options{Nodes: 2})
	client, ns := optest.Client(t, of.Config()), of.Namespace(t)
	w := &world{
		TB: t, of: of, client: client, namespace: ns,
		endpoints: kube.For[api.NeonEndpoint](client).In(ns), branches: kube.For[api.NeonBranch](client).In(ns),
		pods: kube.For[corev1.Pod](client).In(ns), sets: kube.For[appsv1.StatefulSet](client).In(ns),
		secrets: kube.For[corev1.Secret](client).In(ns), leases: kube.For[coordinationv1.Lease](client).In(ns),
		roles: kube.For[api.NeonRole](client).In(ns),
	}
	w.pods.Open(t.Context()) // outside looks for a pod at each call of the operator
	w.outside = &outside{pods: w.pods, secrets: w.secrets, begin: upstream.ComputeRunning, processes: map[types.UID]*process{}}
	w.ok(crd.Install(w.soon(), client, api.Definitions...))

	key := token.New()
	keys := &corev1.Secret{Data: map[string][]byte{"private.pem": key.PEM(), "public.pem": key.Public().PEM()}}
	keys.Name = cluster.KeysName("main")
	_, err := w.secrets.Create(w.soon(), keys)
	w.ok(err)
	c := new(api.NeonCluster)
	c.Name, c.Spec.Image, c.Spec.ComputeImages = "main", "neon:test", map[string]string{"17": "compute:test"}
	c.Spec.ObjectStore.Managed, c.Spec.ControllerDatabase.Managed = new(api.Managed), new(api.Volume)
	c.Spec.Safekeepers.Count, c.Spec.Pageservers.Count = 3, 1
	c.Spec.DeletionPolicy = api.Delete
	_, err = kube.For[api.NeonCluster](client).In(ns).Create(w.soon(), c)
	w.ok(err)
	p := new(api.NeonProject)
	p.Name, p.Spec.Cluster, p.Spec.PostgresVersion, p.Spec.Shards = "app", "main", 17, 1
	p.Spec.HistoryRetention, p.Spec.DeletionPolicy = "7 days", api.Delete
	projects := kube.For[api.NeonProject](client).In(ns)
	p, err = projects.Create(w.soon(), p)
	w.ok(err)
	p.Status.TenantID, p.Status.Shards = strings.Repeat("a", 32), []api.Shard{{Pageserver: 1}}
	p.Status.Conditions = isReady()
	err = projects.Status().Update(w.soon(), p)
	w.ok(err)
	return w
}

func isReady() []metav1.Condition {
	return []metav1.Condition{{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready", LastTransitionTime: metav1.Now(), ObservedGeneration: 1,
	}}
}

// branch makes a branch that is ready. Its timeline's id repeats a digit.
func (w *world) branch(name, digit string, change ...func(*api.NeonBranch)) {
	w.Helper()
	w.branchOf(name, strings.Repeat(digit, 32), change...)
}

// branchOf makes a branch of a timeline that is ready.
func (w *world) branchOf(name, timeline string, change ...func(*api.NeonBranch)) {
	w.Helper()
	b := new(api.NeonBranch)
	b.Name, b.Spec.Project, b.Spec.DeletionPolicy = name, "app", api.Delete
	for _, f := range change {
		f(b)
	}
	b, err := w.branches.Create(w.soon(), b)
	w.ok(err)
	b.Status.TenantID, b.Status.TimelineID = strings.Repeat("a", 32), timeline
	b.Status.Safekeepers, b.Status.SafekeepersGeneration = []int64{1, 2, 3}, 1
	b.Status.Conditions = isReady()
	err = w.branches.Status().Update(w.soon(), b)
	w.ok(err)
}

// endpoint returns an endpoint that is not made yet.
func endpointOf(name, branch string) *api.NeonEndpoint {
	e := new(api.NeonEndpoint)
	e.Name, e.Spec.Branch, e.Spec.Type = name, branch, api.ReadWrite
	return e
}

func (w *world) create(e *api.NeonEndpoint) {
	w.Helper()
	_, err := w.endpoints.Create(w.soon(), e)
	w.ok(err)
}

// operate runs the controllers of endpoints, as one process does, until the test or the function
// that it returns ends them.
func (w *world) operate(change ...func(*Operator)) (stop func()) {
	w.Helper()
	config := w.of.Config()
	if w.requests != nil {
		w.requests(config)
	}
	client := optest.Client(w.TB, config)
	clusters, secrets := kube.For[api.NeonCluster](client).In(w.namespace), kube.For[corev1.Secret](client).In(w.namespace)
	op := &Operator{
		Endpoints: kube.For[api.NeonEndpoint](client).In(w.namespace), Branches: kube.For[api.NeonBranch](client).In(w.namespace),
		Projects: kube.For[api.NeonProject](client).In(w.namespace), Clusters: clusters,
		Roles: kube.For[api.NeonRole](client).In(w.namespace), Databases: kube.For[api.NeonBranchDatabase](client).In(w.namespace),
		Secrets: secrets, Services: kube.For[corev1.Service](client).In(w.namespace),
		StatefulSets: kube.For[appsv1.StatefulSet](client).In(w.namespace), Pods: kube.For[corev1.Pod](client).In(w.namespace),
		Policies: kube.For[networkingv1.NetworkPolicy](client).In(w.namespace),
		Leases:   kube.For[coordinationv1.Lease](client).In(w.namespace),
		Clients:  &cluster.Clients{Secrets: secrets, HTTP: &http.Client{Transport: w.outside}},
	}
	op.Start()
	for _, f := range change {
		f(op)
	}
	ofEndpoint := op.Controller()
	reconcile := ofEndpoint.Reconcile
	ofEndpoint.Reconcile = func(ctx context.Context, e *api.NeonEndpoint) (controller.Action, error) {
		action, err := reconcile(ctx, e)
		if w.turned != nil {
			w.turned(e, action, err)
		}
		return action, err
	}
	ofCluster := controller.Controller[api.NeonCluster]{ // it keeps the store that others read
		For: clusters, Reconcile: func(context.Context, *api.NeonCluster) (controller.Action, error) { return controller.Done, nil },
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		log := slog.New(slog.NewTextHandler(w.Output(), nil))
		done <- controller.Run(ctx, controller.Options{Logger: log}, ofEndpoint, op.RoleController(), op.DatabaseController(), ofCluster)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.Errorf("run controllers: %v", err)
		}
	})
	w.Cleanup(stop)
	return stop
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

// until waits for an endpoint, and shows its plan if it does not come about.
func (w *world) until(name, what string, holds func(*api.NeonEndpoint) bool) *api.NeonEndpoint {
	w.Helper()
	e, err := w.endpoints.Until(w.soon(), name, holds)
	if err != nil {
		if is, _ := w.endpoints.Get(w.Context(), name); is != nil {
			w.Log(is.Status.Phase + "\n" + strings.Join(plan.Tree{}.Lines(&is.Status.Status, time.Now()), "\n"))
		}
		w.Fatalf("wait until %s %s: %v", name, what, err)
	}
	return e
}

func (w *world) ready(name string) *api.NeonEndpoint {
	w.Helper()
	return w.until(name, "is ready", func(e *api.NeonEndpoint) bool { return holds(e) })
}

func holds(e *api.NeonEndpoint) bool {
	c := condition(e)
	return c.Status == metav1.ConditionTrue && c.ObservedGeneration == e.Generation
}

// condition returns an endpoint's condition Ready.
func condition(e *api.NeonEndpoint) metav1.Condition {
	for _, c := range e.Status.Conditions {
		if c.Type == "Ready" {
			return c
		}
	}
	return metav1.Condition{}
}

// says waits until the condition Ready of an endpoint is false and tells a text.
func (w *world) says(name, text string) {
	w.Helper()
	w.until(name, "says "+text, func(e *api.NeonEndpoint) bool {
		c := condition(e)
		return c.Status == metav1.ConditionFalse && strings.Contains(c.Message, text)
	})
}

func (w *world) modify(name string, change func(*api.NeonEndpoint)) {
	w.Helper()
	_, err := w.endpoints.Modify(w.soon(), name, func(e *api.NeonEndpoint) error {
		change(e)
		return nil
	})
	w.ok(err)
}

// pod waits for an endpoint's pod, other than one that is known.
func (w *world) pod(endpoint string, not types.UID) *corev1.Pod {
	w.Helper()
	name := podName(endpointOf(endpoint, ""))
	var p *corev1.Pod
	kubetest.Eventually(w, "there is pod "+name, func() (err error) {
		p, err = w.pods.In(w.namespace).Cached().Get(w.Context(), name)
		if err == nil && (p.UID == not || p.DeletionTimestamp != nil) {
			err = fmt.Errorf("pod %s is deleted since %s", p.UID, p.DeletionTimestamp)
		}
		return err
	})
	return p
}

// busy says whether clients use the computes that run.
func (w *world) busy(is bool) { w.outside.set(func() { w.outside.busy = is }) }

// at returns the pod that runs at an address of PostgreSQL, nothing if there is none.
func (w *world) at(address string) types.UID {
	w.Helper()
	host, _, err := net.SplitHostPort(address)
	w.ok(err)
	name, _, _ := strings.Cut(host, ".")
	for p, err := range w.pods.List(w.soon()) {
		w.ok(err)
		if p.DeletionTimestamp == nil && (p.Name == name+"-0" || p.Status.PodIP == host) {
			return p.UID
		}
	}
	return ""
}

// outside is all that the operator reaches outside the API server: the computes in the simulated
// pods, and a storage controller.
type outside struct {
	pods    kube.Resource[corev1.Pod]
	secrets kube.Resource[corev1.Secret]

	mu        sync.Mutex
	begin     string // the status of computes that start
	failure   *string
	busy      bool // clients use the computes
	processes map[types.UID]*process
	timeline  upstream.Timeline // the storage controller's answer for each
	asked     int               // requests for it
	elsewhere http.RoundTripper // if it is set, it leads to others that answer
}

// process is a scripted compute. It begins with its pod.
type process struct {
	start      time.Time
	status     string
	failure    *string
	lastActive *time.Time
	config     spec.Config
	configured int
}

func (o *outside) set(change func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change()
}

// process returns a pod's compute, if the operator has asked it before.
func (o *outside) process(uid types.UID) process {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p := o.processes[uid]; p != nil {
		return *p
	}
	return process{}
}

var errRefused = errors.New("connection refused")

// RoundTrip answers the operator's calls.
func (o *outside) RoundTrip(r *http.Request) (*http.Response, error) {
	o.mu.Lock()
	elsewhere := o.elsewhere
	o.mu.Unlock()
	if elsewhere != nil {
		return elsewhere.RoundTrip(r)
	}
	name, _, _ := strings.Cut(r.URL.Hostname(), ".")
	if name == "main-controller" {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.asked++
		return respond(http.StatusOK, o.timeline)
	}
	is, err := o.compute(r.Context(), name)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.busy {
		now := time.Now()
		is.lastActive = &now
	}
	if r.URL.Path == "/configure" {
		if is.status != upstream.ComputeRunning {
			return respond(http.StatusPreconditionFailed, map[string]string{"error": "invalid compute status: " + is.status})
		}
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		if is.config, err = spec.Decode(text); err != nil {
			return nil, err
		}
		is.configured++
	}
	return respond(http.StatusOK, is.answer())
}

// compute returns the compute of a name. It answers until its pod is gone, as a real one does while
// PostgreSQL ends.
func (o *outside) compute(ctx context.Context, name string) (*process, error) {
	p, err := o.pods.In(o.pods.Namespaces()[0]).Cached().Get(ctx, name+"-0")
	if err != nil || p.Status.Phase != corev1.PodRunning {
		return nil, errRefused
	}
	o.mu.Lock()
	is := o.processes[p.UID]
	o.mu.Unlock()
	if is != nil {
		return is, nil
	}
	// A compute reads the Secret once, when it starts.
	secret, err := o.secrets.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if is := o.processes[p.UID]; is != nil { // of another call
		return is, nil
	}
	is = &process{start: time.Now(), status: o.begin, failure: o.failure}
	if is.config, err = spec.Decode(secret.Data[configFile]); err != nil {
		return nil, err
	}
	o.processes[p.UID] = is
	return is, nil
}

func (p *process) answer() upstream.ComputeStatus {
	return upstream.ComputeStatus{
		StartTime: p.start, Tenant: p.config.Spec.TenantID, Timeline: p.config.Spec.TimelineID, Status: p.status,
		Error: p.failure, LastActive: p.lastActive,
	}
}

func respond(status int, body any) (*http.Response, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: status, Status: fmt.Sprint(status), Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(string(text))), ContentLength: int64(len(text)),
	}, nil
}
