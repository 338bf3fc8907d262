package plan_test

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/plan"
)

// patience is the longest time that a step may take on a busy machine.
const patience = 3 * time.Minute

// bench is a namespace of a real API server with simulated nodes.
type bench struct {
	*testing.T
	cluster   *kubetest.Cluster
	namespace string
	op        operator
	writes    *atomic.Int32                             // of the operator
	reads     *atomic.Int32                             // of the operator, other than watches
	wrap      func(http.RoundTripper) http.RoundTripper // wraps the operator's transport; nil: nothing does
}

func newBench(t *testing.T) *bench {
	t.Helper()
	if testing.Short() {
		t.Skip("needs an API server")
	}
	cluster := kubetest.Start(t, kubetest.Options{Nodes: 2})
	b := &bench{T: t, cluster: cluster, namespace: cluster.Namespace(t), writes: new(atomic.Int32), reads: new(atomic.Int32)}
	b.op = b.operator(nil)
	definition := crd.Of[Shop](crd.Options{})
	b.ok(crd.Install(b.soon(), b.op.shops.Client(), definition))
	return b
}

func (b *bench) ok(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) soon() context.Context {
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	b.Cleanup(cancel)
	return ctx
}

// operator returns handles of a client of its own.
func (b *bench) operator(observe func(kube.RequestInfo)) operator {
	b.Helper()
	config := b.cluster.Config()
	if b.wrap != nil && observe != nil {
		config.Wrap(b.wrap)
	}
	client, err := kube.Config{Rest: config, FieldManager: "shop-operator", Observe: observe}.Connect()
	b.ok(err)
	b.Cleanup(client.Close)
	ns := b.namespace
	return operator{
		kube.For[Shop](client).In(ns), kube.For[corev1.Secret](client).In(ns), kube.For[corev1.Service](client).In(ns),
		kube.For[batchv1.Job](client).In(ns), kube.For[appsv1.StatefulSet](client).In(ns), kube.For[appsv1.Deployment](client).In(ns),
	}
}

// start runs a process of the operator until stop is called.
func (b *bench) start(children func(operator, *Shop) *plan.Plan) (stop func()) {
	b.Helper()
	op := b.operator(func(r kube.RequestInfo) {
		switch {
		case r.Method != http.MethodGet:
			b.writes.Add(1)
		case r.Verb != "watch" && r.Verb != "list":
			b.reads.Add(1)
		}
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	ended := make(chan error, 1)
	go func() {
		ended <- controller.Run(ctx, controller.Options{}, controller.Controller[Shop]{
			For:       op.shops,
			Owns:      []kube.AnyHandle{op.services, op.jobs, op.statefulSets, op.deployments},
			Watches:   []controller.Source{plan.Marked(op.shops, op.secrets), controller.Owned(op.secrets)},
			Reconcile: func(ctx context.Context, s *Shop) (controller.Action, error) { return children(op, s).Run(ctx) },
			Cleanup:   func(ctx context.Context, s *Shop) (controller.Action, error) { return children(op, s).Delete(ctx) },
		})
	}()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		b.ok(<-ended)
	}
	b.Cleanup(stop)
	return stop
}

func (b *bench) create(name string) {
	b.Helper()
	s := new(Shop)
	s.Name, s.Spec.Image, s.Spec.Replicas = name, "shop:1", 2
	_, err := b.op.shops.Create(b.soon(), s)
	b.ok(err)
}

func (b *bench) untilReady(name string) *Shop {
	b.Helper()
	s, err := b.op.shops.Until(b.soon(), name, func(s *Shop) bool {
		return meta.IsStatusConditionTrue(s.Status.Conditions, "Ready")
	})
	if err != nil {
		now, _ := b.op.shops.Get(b.Context(), name)
		b.Fatalf("%v\n%+v", err, now)
	}
	return s
}

// settled fails unless a reconcile of a settled plan sends no request.
func (b *bench) settled(name string) {
	b.Helper()
	time.Sleep(3 * time.Second) // the last changes have been seen
	writes, reads := b.writes.Load(), b.reads.Load()
	_, err := b.op.shops.Modify(b.soon(), name, func(s *Shop) error {
		s.Annotations = map[string]string{"example.com/look": "again"}
		return nil
	})
	b.ok(err)
	time.Sleep(2 * time.Second) // nothing may be sent
	if w, r := b.writes.Load()-writes, b.reads.Load()-reads; w != 0 || r != 0 {
		b.Errorf("a settled plan sends %d writes and %d reads", w, r)
	}
}

func TestShopOnServer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start(operator.children)
	b.create("corner")
	var shown bytes.Buffer
	followed := make(chan error, 1)
	go func() {
		followed <- plan.Follow(b.Context(), &shown, b.op.shops, "corner", func(s *Shop) *plan.Status { return &s.Status.Status })
	}()
	s := b.untilReady("corner")
	if len(s.Status.Nodes) != 5 || s.Status.Serving != 2 {
		t.Errorf("status is %+v", s.Status)
	}
	job, err := b.op.jobs.Get(b.soon(), "corner-migrate")
	b.ok(err)
	app, err := b.op.deployments.Get(b.soon(), "corner")
	b.ok(err)
	if job.Status.CompletionTime == nil || app.CreationTimestamp.Before(job.Status.CompletionTime) {
		t.Errorf("the application was created at %s, the migration ended at %s", app.CreationTimestamp, job.Status.CompletionTime)
	}
	b.settled("corner")

	b.ok(b.op.shops.Delete(b.soon(), "corner"))
	b.ok(b.op.shops.UntilGone(b.soon(), "corner"))
	b.ok(<-followed)
	for _, want := range []string{"database: Waiting", "database: Ready", "app: Blocked: waits for ", "app: Ready", "corner is gone"} {
		if !strings.Contains(shown.String(), want) {
			b.Errorf("Follow does not show %q:\n%s", want, shown.String())
		}
	}
	secret, err := b.op.secrets.Get(b.soon(), "corner-db")
	b.ok(err)
	if len(secret.OwnerReferences) > 0 || secret.Annotations[plan.Mark] != "" {
		t.Errorf("the retained secret is %+v", secret.ObjectMeta)
	}
	if _, err := b.op.statefulSets.Get(b.soon(), "corner-db"); !apierrors.IsNotFound(err) {
		t.Errorf("the database is left: %v", err)
	}
	// A new shop of the name takes the secret over.
	b.create("corner")
	b.untilReady("corner")
	again, err := b.op.secrets.Get(b.soon(), "corner-db")
	b.ok(err)
	if again.UID != secret.UID {
		t.Error("the retained secret was recreated")
	}
}
