package plan_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/plan"
	"github.com/pintle-go/pintle/ready"
)

// ward handles the 20 children of each owner: 18 ConfigMaps, a Service and a Deployment
// with one pod.
type ward struct {
	shops       kube.Resource[Shop]
	maps        kube.Resource[corev1.ConfigMap]
	services    kube.Resource[corev1.Service]
	deployments kube.Resource[appsv1.Deployment]
}

const (
	before = 8  // ConfigMaps that the Deployment needs
	after  = 10 // ConfigMaps that need the Deployment
	nodes  = before + after + 2
)

func (ward) about(s *Shop, suffix string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: s.Name + suffix, Labels: map[string]string{"shop": s.Name}}
}

func (w ward) configMap(s *Shop, i int) *corev1.ConfigMap {
	data := map[string]string{"image": s.Spec.Image, "number": fmt.Sprint(i)}
	return &corev1.ConfigMap{ObjectMeta: w.about(s, fmt.Sprintf("-%d", i)), Data: data}
}

func (w ward) service(s *Shop) *corev1.Service {
	o := w.about(s, "")
	return &corev1.Service{ObjectMeta: o, Spec: corev1.ServiceSpec{Selector: o.Labels, Ports: []corev1.ServicePort{{Port: 80}}}}
}

func (w ward) deployment(s *Shop) *appsv1.Deployment {
	o := w.about(s, "")
	return &appsv1.Deployment{ObjectMeta: o, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: o.Labels},
		Template: pod(o, s.Spec.Image, corev1.RestartPolicyAlways, "x=y"),
	}}
}

// planned describes the children as a plan.
func (w ward) planned(s *Shop) *plan.Plan {
	p := plan.New(w.shops, s, &s.Status.Status)
	app := plan.Object(p, "app", w.deployments, func(plan.Inputs) (*appsv1.Deployment, error) { return w.deployment(s), nil }).
		Needs(plan.Object(p, "service", w.services, func(plan.Inputs) (*corev1.Service, error) { return w.service(s), nil }))
	for i := range before + after {
		n := plan.Object(p, fmt.Sprintf("map-%d", i), w.maps, func(plan.Inputs) (*corev1.ConfigMap, error) { return w.configMap(s, i), nil })
		if i < before {
			app.Needs(n)
		} else {
			n.Needs(app)
		}
	}
	return p
}

// byHand applies the children one after the other.
func (w ward) byHand(ctx context.Context, s *Shop) error {
	isReady := 0
	for i := range before + after {
		if err := apply(ctx, w.shops, s, w.maps, w.configMap(s, i), &isReady); err != nil {
			return err
		}
	}
	if err := apply(ctx, w.shops, s, w.services, w.service(s), &isReady); err != nil {
		return err
	}
	if err := apply(ctx, w.shops, s, w.deployments, w.deployment(s), &isReady); err != nil {
		return err
	}
	c := metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Waiting"}
	if isReady == nodes {
		c.Status, c.Reason = metav1.ConditionTrue, "Ready"
	}
	s.Status.ReadyNodes = fmt.Sprintf("%d/%d", isReady, nodes)
	controller.SetCondition(s, &s.Status.Conditions, c)
	return w.shops.Status().Ensure(ctx, s)
}

func apply[T any](
	ctx context.Context, shops kube.Resource[Shop], s *Shop, objects kube.Resource[T], o *T, isReady *int,
) error {
	if err := kube.SetController(shops, s, objects, o); err != nil {
		return err
	}
	is, err := objects.Ensure(ctx, o)
	if err == nil && ready.Is(is) {
		*isReady++
	}
	return err
}

// removeByHand deletes the children.
func (w ward) removeByHand(ctx context.Context, s *Shop) error {
	var failed []error
	for i := range before + after {
		failed = append(failed, w.maps.Delete(ctx, w.configMap(s, i).Name))
	}
	failed = append(failed, w.services.Delete(ctx, s.Name), w.deployments.Delete(ctx, s.Name))
	for _, err := range failed {
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// cost is the cost of a kind of operator until all owners are ready.
type cost struct {
	cpu        time.Duration // of the process
	requests   int64
	reconciles int64
}

// mostCost is the most that a plan may cost, as a multiple of a reconcile by hand.
const mostCost = 1.15

// BenchmarkOwners compares an operator that uses a plan with one that calls Ensure for each
// child, for b.N owners with 20 children each on simulated nodes, until all are ready. Then
// it deletes the owners, and returns only if nothing is left. It is meant for -benchtime
// 1000x. The plan has an order, so it also writes the status once for each wave. It fails if
// the plan costs more than the limit; processor time is judged for 1,000 owners or more.
func BenchmarkOwners(b *testing.B) {
	cluster := kubetest.Start(b, kubetest.Options{Nodes: 10})
	client, err := kube.Config{Rest: cluster.Config()}.Connect()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(client.Close)
	definition := crd.Of[Shop](crd.Options{})
	if err := crd.Install(b.Context(), client, definition); err != nil {
		b.Fatal(err)
	}
	costs := make(map[bool]cost)
	for _, planned := range []bool{false, true} {
		costs[planned] = runOwners(b, cluster, client, planned)
	}
	hand, plans := costs[false], costs[true]
	all := float64(b.N * nodes)
	b.ReportMetric(float64(hand.requests)/all, "requests/node-by-hand")
	b.ReportMetric(float64(plans.requests)/all, "requests/node")
	b.ReportMetric(float64(hand.reconciles)/float64(b.N), "reconciles/owner-by-hand")
	b.ReportMetric(float64(plans.reconciles)/float64(b.N), "reconciles/owner")
	b.ReportMetric(float64(hand.cpu.Microseconds())/all, "µs-cpu/node-by-hand")
	b.ReportMetric(float64(plans.cpu.Microseconds())/all, "µs-cpu/node")
	requests, cpu := float64(plans.requests)/float64(hand.requests), float64(plans.cpu)/float64(hand.cpu)
	b.ReportMetric(requests, "requests-ratio")
	b.ReportMetric(cpu, "cpu-ratio")
	if b.N >= 10 && requests > mostCost {
		b.Errorf("the plan sends %.2f times the requests of a reconcile by hand, want %.2f at most", requests, mostCost)
	}
	if b.N >= 1000 && cpu > mostCost {
		b.Errorf("the plan takes %.2f times the processor time of a reconcile by hand, want %.2f at most", cpu, mostCost)
	}
}

// runOwners creates b.N owners, runs an operator until all are ready, deletes them, and
// checks that nothing is left.
func runOwners(b *testing.B, cluster *kubetest.Cluster, own *kube.Client, planned bool) cost {
	ns := cluster.Namespace(b)
	shops := kube.For[Shop](own).In(ns)
	ctx, stop := context.WithTimeout(b.Context(), time.Hour)
	defer stop()
	for i := range b.N {
		s := new(Shop)
		s.Name, s.Spec.Image = fmt.Sprintf("shop-%d", i), "shop:1"
		if _, err := shops.Create(ctx, s); err != nil {
			b.Fatal(err)
		}
	}
	var requests, reconciles atomic.Int64
	config := kube.Config{Rest: cluster.Config(), Observe: func(kube.RequestInfo) { requests.Add(1) }}
	client, err := config.Connect()
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	w := ward{
		kube.For[Shop](client).In(ns), kube.For[corev1.ConfigMap](client).In(ns), kube.For[corev1.Service](client).In(ns),
		kube.For[appsv1.Deployment](client).In(ns),
	}
	var done sync.Map
	left := atomic.Int64{}
	left.Store(int64(b.N))
	allReady, ended := make(chan struct{}), make(chan error, 1)
	c := controller.Controller[Shop]{
		For: w.shops, Owns: []kube.AnyHandle{w.maps, w.services, w.deployments},
		Reconcile: func(ctx context.Context, s *Shop) (action controller.Action, err error) {
			reconciles.Add(1)
			if planned {
				action, err = w.planned(s).Run(ctx)
			} else {
				err = w.byHand(ctx, s)
			}
			if err == nil && meta.IsStatusConditionTrue(s.Status.Conditions, "Ready") {
				if _, again := done.LoadOrStore(s.Name, true); !again && left.Add(-1) == 0 {
					close(allReady)
				}
			}
			return action, err
		},
		Cleanup: func(ctx context.Context, s *Shop) (controller.Action, error) {
			if planned {
				return w.planned(s).Delete(ctx)
			}
			return controller.Done, w.removeByHand(ctx, s)
		},
	}
	running, end := context.WithCancel(ctx)
	defer end()
	runtime.GC()
	begun := used(b)
	go func() { ended <- controller.Run(running, controller.Options{}, c) }()
	select {
	case <-allReady:
	case err := <-ended:
		b.Fatal(err)
	case <-ctx.Done():
		b.Fatalf("%d owners are not ready", left.Load())
	}
	is := cost{used(b) - begun, requests.Load(), reconciles.Load()}
	if err := shops.DeleteAll(ctx); err != nil {
		b.Fatal(err)
	}
	for count[Shop](ctx, b, shops) > 0 {
		time.Sleep(100 * time.Millisecond)
	}
	for n := 1; n > 0; time.Sleep(100 * time.Millisecond) { // deployments go in the background
		n = count[corev1.Service](ctx, b, w.services) + count[appsv1.Deployment](ctx, b, w.deployments)
		for o, err := range w.maps.List(ctx) {
			if err != nil {
				b.Fatal(err)
			}
			if o.Labels["shop"] != "" {
				n++
			}
		}
	}
	end()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
	return is
}

func count[T any](ctx context.Context, b *testing.B, objects kube.Resource[T]) (n int) {
	for _, err := range objects.List(ctx) {
		if err != nil {
			b.Fatal(err)
		}
		n++
	}
	return n
}

// used returns the processor time of this process.
func used(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
