package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/internal/install"
	"github.com/pintle-go/pintle/operators/internal/optest"
	"github.com/pintle-go/pintle/operators/internal/payments"
	"github.com/pintle-go/pintle/operators/internal/program"
	"github.com/pintle-go/pintle/plan"
)

// patience is the longest time that a step may take on a busy machine.
const patience = 2 * time.Minute

// bench is a namespace of a cluster with simulated nodes, and a payment service of its own.
type bench struct {
	*testing.T
	client       *kube.Client
	kubeconfig   string
	namespace    string
	service      *payments.Service
	url          string // of the service
	operator     *program.Program
	shops        kube.Resource[Shop]
	secrets      kube.Resource[corev1.Secret]
	services     kube.Resource[corev1.Service]
	configMaps   kube.Resource[corev1.ConfigMap]
	statefulSets kube.Resource[appsv1.StatefulSet]
	jobs         kube.Resource[batchv1.Job]
	deployments  kube.Resource[appsv1.Deployment]
}

func newBench(t *testing.T, cluster *kubetest.Cluster) *bench {
	t.Helper()
	client, ns := optest.Client(t, cluster.Config()), cluster.Namespace(t)
	b := &bench{
		T: t, client: client, namespace: ns, service: new(payments.Service),
		kubeconfig:   optest.Kubeconfig(t, cluster.Config(), ns, ""),
		shops:        kube.For[Shop](client).In(ns),
		secrets:      kube.For[corev1.Secret](client).In(ns),
		services:     kube.For[corev1.Service](client).In(ns),
		configMaps:   kube.For[corev1.ConfigMap](client).In(ns),
		statefulSets: kube.For[appsv1.StatefulSet](client).In(ns),
		jobs:         kube.For[batchv1.Job](client).In(ns),
		deployments:  kube.For[appsv1.Deployment](client).In(ns),
	}
	server := httptest.NewServer(b.service)
	t.Cleanup(server.Close)
	b.url = server.URL
	op, err := describe(client)
	b.ok(err)
	b.ok(crd.Install(b.soon(), client, op.Definitions...))
	b.volume()
	t.Cleanup(b.leave)
	return b
}

// leave deletes the Shop after its operator has ended, so that the operators of other tests
// do not see it.
func (b *bench) leave() {
	ctx := context.Background() // the test's has ended
	_ = b.shops.Delete(ctx, "corner")
	_, err := b.shops.Patch(ctx, "corner", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	if err == nil {
		err = b.shops.UntilGone(ctx, "corner")
	}
	if err != nil && !apierrors.IsNotFound(err) {
		b.Error(err)
	}
}

// volume makes the StorageClass and the volume of the sample's manifest. The volume is for
// the database of the Shop "corner" in this namespace.
func (b *bench) volume() {
	b.Helper()
	list := optest.Read(b.T, "shop/storage.yaml")
	optest.Apply(b.T, b.client, "", list[:1]...)
	text := strings.NewReplacer(
		"name: local\nspec", "name: "+b.namespace+"\nspec",
		"  storageClassName", "  claimRef:\n    namespace: "+b.namespace+"\n    name: data-corner-db-0\n  storageClassName",
	).Replace(string(list[1].YAML))
	made, err := install.Parse([]byte(text))
	b.ok(err)
	optest.Apply(b.T, b.client, "", made...)
	b.Cleanup(func() {
		// The namespace does not have it.
		_ = kube.For[corev1.PersistentVolume](b.client).Delete(context.Background(), b.namespace)
	})
}

// start starts the operator, and returns when it reconciles.
func (b *bench) start() {
	b.Helper()
	b.operator = binary.Run(b.T, b.kubeconfig, "-addr=127.0.0.1:0", "-payments="+b.url, "-page")
	optest.Expect(b.T, b.operator, "controller runs", "controller=shop")
}

// kill ends the operator as a failing machine does.
func (b *bench) kill() {
	b.Helper()
	b.ok(b.operator.Signal(os.Kill))
	<-b.operator.Done()
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

// run runs a subtest. The bench fails that test meanwhile.
func (b *bench) run(name string, test func(t *testing.T)) {
	b.Helper()
	parent := b.T
	parent.Run(name, func(t *testing.T) {
		b.T = t
		defer func() { b.T = parent }()
		test(t)
	})
	if parent.Failed() {
		parent.FailNow() // the next steps need this one
	}
}

// apply makes the Shop "corner".
func (b *bench) apply() {
	b.Helper()
	s := new(Shop)
	s.Name, s.Spec.Image, s.Spec.Replicas, s.Spec.Limit = "corner", "shop:v1", 2, 1000
	s.Spec.Storage, s.Spec.Regions, s.Spec.Settings = resource.MustParse("1Gi"), []string{"east", "west"}, "greetings"
	_, err := b.shops.Apply(b.soon(), s)
	b.ok(err)
}

func (b *bench) greet(text string) {
	b.Helper()
	m := &corev1.ConfigMap{Data: map[string]string{"greeting": text}}
	m.Name = "greetings"
	_, err := b.configMaps.Apply(b.soon(), m)
	b.ok(err)
}

func (b *bench) change(change func(*Shop)) {
	b.Helper()
	_, err := b.shops.Modify(b.soon(), "corner", func(s *Shop) error { change(s); return nil })
	b.ok(err)
}

func (b *bench) until(what string, holds func(*Shop) bool) *Shop {
	b.Helper()
	s, err := b.shops.Until(b.soon(), "corner", holds)
	if err != nil {
		if now, _ := b.shops.Get(b.Context(), "corner"); now != nil {
			b.Log("\n" + strings.Join(plan.Tree{}.Lines(&now.Status.Status, time.Now()), "\n"))
		}
		b.Fatalf("wait until %s: %v", what, err)
	}
	return s
}

// isReady reports that a Shop is ready as it is wanted.
func isReady(s *Shop) bool {
	c := meta.FindStatusCondition(s.Status.Conditions, "Ready")
	return c != nil && c.Status == "True" && c.ObservedGeneration == s.Generation && s.Status.Serving == s.Spec.Replicas
}

func (b *bench) untilReady() *Shop {
	b.Helper()
	return b.until("the shop is ready", isReady)
}

// state returns the state and the message of a node.
func state(s *Shop, name string) string {
	for _, n := range s.Status.Nodes {
		if n.Name == name {
			return strings.TrimSuffix(string(n.State)+" "+n.Message, " ")
		}
	}
	return ""
}

// env returns the value of a variable of a Deployment.
func env(d *appsv1.Deployment, name string) string {
	for _, e := range d.Spec.Template.Spec.Containers[0].Env {
		if e.Name == name {
			return e.Value
		}
	}
	return ""
}

// requests counts the requests of the operator, other than watches.
func (b *bench) requests() int {
	b.Helper()
	return optest.Metric(b.T, b.operator, `rest_client_requests_total\{`)
}

// settled waits until the operator sends no request, and then checks that reconciles of
// the shop send none.
func (b *bench) settled() {
	b.Helper()
	was := optest.AtRest(b, "the operator sends no request", b.requests)
	calls := b.service.Calls()
	success := `controller_runtime_reconcile_total\{.*result="(?:success|requeue_after)"`
	reconciles := optest.Metric(b.T, b.operator, success)
	b.change(func(s *Shop) { s.Annotations = map[string]string{"example.com/look": "again"} })
	kubetest.Eventually(b, "it reconciles", func() error {
		if n := optest.Metric(b.T, b.operator, success); n == reconciles {
			return fmt.Errorf("%d reconciles, as before", n)
		}
		return nil
	})
	time.Sleep(time.Second) // nothing may be sent
	if n, c := b.requests(), b.service.Calls(); n != was || c != calls {
		b.Errorf("a settled shop takes %d requests and %d calls", n-was, c-calls)
	}
}

// hasAccounts checks that the shop has one account of each suffix at the service, and that
// their keys are in Secrets.
func (b *bench) hasAccounts(suffixes ...string) {
	b.Helper()
	s, err := b.shops.Get(b.soon(), "corner")
	b.ok(err)
	all := b.service.Accounts()
	if len(all) != len(suffixes) {
		b.Errorf("the service has %+v, want %q", all, suffixes)
	}
	for _, suffix := range suffixes {
		name := string(s.UID) + suffix
		if len(all[name]) != 1 {
			b.Errorf("the service has %d accounts %s", len(all[name]), name)
			continue
		}
		secret, err := b.secrets.Get(b.soon(), plan.OutcomeName("Account", name))
		b.ok(err)
		if key := string(secret.Data["key"]); key == "" || key != all[name][0].Key {
			b.Errorf("the Secret of %s has the key %q, the service %q", name, key, all[name][0].Key)
		}
	}
}

// onlyPassword checks what a deleted Shop leaves.
func (b *bench) onlyPassword() {
	b.Helper()
	var left []string
	list := func(kind, name string, err error) {
		b.ok(err)
		left = append(left, kind+" "+name)
	}
	for o, err := range b.secrets.List(b.soon()) {
		list("Secret", o.Name, err)
	}
	for o, err := range b.services.List(b.soon()) {
		list("Service", o.Name, err)
	}
	for o, err := range b.configMaps.List(b.soon()) {
		if o.Name != "kube-root-ca.crt" {
			list("ConfigMap", o.Name, err)
		}
	}
	for o, err := range b.statefulSets.List(b.soon()) {
		list("StatefulSet", o.Name, err)
	}
	for o, err := range b.jobs.List(b.soon()) {
		list("Job", o.Name, err)
	}
	for o, err := range b.deployments.List(b.soon()) {
		list("Deployment", o.Name, err)
	}
	if want := []string{"Secret corner-db", "ConfigMap greetings"}; !slices.Equal(left, want) {
		b.Errorf("left are %q, want %q", left, want)
	}
	if all := b.service.Accounts(); len(all) > 0 {
		b.Errorf("accounts are left: %+v", all)
	}
}

// showsPlans checks that the page is there for everybody, and its data for nobody without a
// token.
func (b *bench) showsPlans(t *testing.T) {
	t.Helper()
	address := optest.Address(t, b.operator)
	for path, want := range map[string]int{"/plans/": http.StatusOK, "/plans/data": http.StatusUnauthorized} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, http.NoBody)
		b.ok(err)
		req.Close = true
		resp, err := http.DefaultClient.Do(req)
		b.ok(err)
		b.ok(resp.Body.Close())
		if resp.StatusCode != want {
			t.Errorf("%s answers %s", path, resp.Status)
		}
	}
}
