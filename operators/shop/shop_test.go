package main

import (
	"bytes"
	"context"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
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

var binary = optest.Binary{Package: "github.com/pintle-go/pintle/operators/shop"}

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, binary.Removed())
}

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
	b.ok(crd.Install(b.soon(), client, op.Manifest.Definitions...))
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
	b.operator = binary.Run(b.T, b.kubeconfig, "-addr=127.0.0.1:0", "-payments="+b.url)
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
	const quiet = 3 * time.Second
	was, calls, since := b.requests(), b.service.Calls(), time.Now()
	for begun := time.Now(); time.Since(since) < quiet; time.Sleep(100 * time.Millisecond) {
		if n := b.requests(); n != was {
			was, calls, since = n, b.service.Calls(), time.Now()
		}
		if time.Since(begun) > patience {
			b.Fatalf("it goes on sending requests: %d so far", was)
		}
	}
	success := `controller_runtime_reconcile_total\{.*result="(?:success|requeue_after)"`
	reconciles := optest.Metric(b.T, b.operator, success)
	b.change(func(s *Shop) { s.Annotations = map[string]string{"example.com/look": "again"} })
	for begun := time.Now(); optest.Metric(b.T, b.operator, success) == reconciles; time.Sleep(50 * time.Millisecond) {
		if time.Since(begun) > patience {
			b.Fatal("it does not reconcile")
		}
	}
	time.Sleep(time.Second)
	if n, c := b.requests(), b.service.Calls(); n != was || c != calls {
		b.Errorf("a settled shop takes %d requests and %d calls", n-was, c-calls)
	}
}

// since matches the time since when a node is in a state.
var since = regexp.MustCompile(` +(Ready|Absent) \d+[ms]\d*s?$`)

// tree is how a Shop that is ready is shown.
const tree = `✓ password Ready
✓ address Ready
└─ ✓ database Ready
   └─ ✓ migrate Ready
      └─ ✓ app Ready
         └─ ○ gifts Absent
✓ account Ready
✓ till/east Ready
└─ ✓ region/east Ready
✓ till/west Ready
└─ ✓ region/west Ready
✓ settings Ready
✓ front Ready`

// TestShop takes a Shop through its life.
func TestShop(t *testing.T) {
	b := newBench(t, kubetest.Start(t, kubetest.Options{Nodes: 2}))
	b.start()
	b.apply()
	var shown bytes.Buffer
	followed := make(chan error, 1)
	b.until("all but the settings is there", func(s *Shop) bool {
		return state(s, "settings") == "Waiting it does not exist" && state(s, "app") == "Blocked waits for settings"
	})
	go func() {
		of := func(s *Shop) *plan.Status { return &s.Status.Status }
		followed <- plan.Follow(t.Context(), &shown, b.shops, "corner", of)
	}()
	b.greet("")
	b.until("the settings have no greeting", func(s *Shop) bool { return state(s, "settings") == "Waiting it has no greeting" })
	b.greet("Come in!")
	s := b.untilReady()

	b.run("its tree is shown", func(t *testing.T) {
		lines := plan.Tree{}.Lines(&s.Status.Status, time.Now())
		for i, line := range lines {
			lines[i] = since.ReplaceAllString(line, " $1")
		}
		if got := strings.Join(lines, "\n"); got != tree {
			t.Errorf("the tree is\n%s\nwant\n%s", got, tree)
		}
	})
	b.run("the application starts after the migration", func(t *testing.T) {
		job, err := b.jobs.Get(b.soon(), "corner-migrate")
		b.ok(err)
		app, err := b.deployments.Get(b.soon(), "corner")
		b.ok(err)
		if job.Status.CompletionTime == nil || app.CreationTimestamp.Before(job.Status.CompletionTime) {
			t.Errorf("the application was created at %s, the migration ended at %s", app.CreationTimestamp, job.Status.CompletionTime)
		}
		if env(app, "GREETING") != "Come in!" || env(app, "REGIONS") != "corner-region-east,corner-region-west" {
			t.Errorf("the application is %+v", app.Spec.Template.Spec.Containers)
		}
	})
	b.run("it has an account and a till for each region", func(*testing.T) { b.hasAccounts("", "-east", "-west") })
	b.run("events and metrics tell of it", func(t *testing.T) {
		events := kube.For[eventsv1.Event](b.client).In(b.namespace)
		for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
			found := false
			for e, err := range events.List(b.soon()) {
				b.ok(err)
				found = found || e.Regarding.Kind == "Shop" && e.Reason == "Ready"
			}
			if found {
				break
			}
			if time.Since(begun) > patience {
				t.Fatal("there is no event")
			}
		}
		if n := optest.Metric(t, b.operator, `pintle_plan_nodes\{kind="Shop.shop.example.com",state="Ready"\}`); n != 12 {
			t.Errorf("the metrics show %d nodes that are ready", n)
		}
	})
	b.run("a settled shop takes no request", func(*testing.T) { b.settled() })
	b.run("settings reach the application", func(t *testing.T) {
		b.greet("Welcome!")
		_, err := b.deployments.Until(b.soon(), "corner", func(d *appsv1.Deployment) bool { return env(d, "GREETING") == "Welcome!" })
		b.ok(err)
		b.untilReady()
	})
	b.run("gifts come and go", func(t *testing.T) {
		if _, err := b.deployments.Get(b.soon(), "corner-gifts"); !apierrors.IsNotFound(err) {
			t.Errorf("gifts are wrapped already: %v", err)
		}
		b.change(func(s *Shop) { s.Spec.Gifts = true })
		b.until("gifts are wrapped", func(s *Shop) bool { return isReady(s) && state(s, "gifts") == "Ready" })
		b.change(func(s *Shop) { s.Spec.Gifts = false })
		b.ok(b.deployments.UntilGone(b.soon(), "corner-gifts"))
		b.until("gifts are absent", func(s *Shop) bool { return isReady(s) && state(s, "gifts") == "Absent" })
	})
	b.run("a region leaves and another comes, and the limit is changed", func(t *testing.T) {
		b.change(func(s *Shop) { s.Spec.Regions, s.Spec.Limit = []string{"east", "north"}, 500 })
		b.ok(b.configMaps.UntilGone(b.soon(), "corner-region-west"))
		b.until("the region has left", func(s *Shop) bool { return isReady(s) && state(s, "till/west") == "" && state(s, "region/west") == "" })
		b.hasAccounts("", "-east", "-north")
		for name, all := range b.service.Accounts() {
			if len(all) > 0 && all[0].Limit != 500 {
				t.Errorf("the limit of %s is %d", name, all[0].Limit)
			}
		}
	})
	b.run("another image migrates the database again before it serves", func(t *testing.T) {
		was, err := b.jobs.Get(b.soon(), "corner-migrate")
		b.ok(err)
		b.change(func(s *Shop) { s.Spec.Image = "shop:v2" })
		app, err := b.deployments.Until(b.soon(), "corner", func(d *appsv1.Deployment) bool {
			return d.Spec.Template.Spec.Containers[0].Image == "shop:v2"
		})
		b.ok(err)
		is, err := b.jobs.Get(b.soon(), "corner-migrate")
		b.ok(err)
		if is.UID == was.UID || is.Status.CompletionTime == nil || is.Spec.Template.Spec.Containers[0].Image != "shop:v2" {
			t.Errorf("the application %s was changed, and the migration is %+v", app.Name, is.Status)
		}
		b.untilReady()
	})
	b.run("storage grows, and the database runs on", func(t *testing.T) {
		pods, claims := kube.For[corev1.Pod](b.client).In(b.namespace), kube.For[corev1.PersistentVolumeClaim](b.client).In(b.namespace)
		was, err := pods.Get(b.soon(), "corner-db-0")
		b.ok(err)
		set, err := b.statefulSets.Get(b.soon(), "corner-db")
		b.ok(err)
		b.change(func(s *Shop) { s.Spec.Storage = resource.MustParse("2Gi") })
		_, err = b.statefulSets.Until(b.soon(), "corner-db", func(s *appsv1.StatefulSet) bool { return s.UID != set.UID })
		b.ok(err)
		b.untilReady()
		is, err := pods.Get(b.soon(), "corner-db-0")
		b.ok(err)
		claim, err := claims.Get(b.soon(), "data-corner-db-0")
		b.ok(err)
		if size := claim.Spec.Resources.Requests.Storage().String(); is.UID != was.UID || size != "2Gi" {
			t.Errorf("the pod was %s and is %s, and its volume has %s", was.UID, is.UID, size)
		}
	})

	secret, err := b.secrets.Get(b.soon(), "corner-db")
	b.ok(err)
	b.ok(b.shops.Delete(b.soon(), "corner"))
	b.ok(b.shops.UntilGone(b.soon(), "corner"))
	b.ok(<-followed)
	b.run("the password alone is left", func(*testing.T) { b.onlyPassword() })
	for _, want := range []string{"settings: Waiting: it has no greeting", "app: Ready", "till/west: gone", "corner is gone"} {
		if !strings.Contains(shown.String(), want) {
			t.Errorf("Follow does not show %q:\n%s", want, shown.String())
		}
	}
	b.run("a shop of the same name has the same password", func(t *testing.T) {
		b.apply()
		b.untilReady()
		again, err := b.secrets.Get(b.soon(), "corner-db")
		b.ok(err)
		if again.UID != secret.UID || !bytes.Equal(again.Data["password"], secret.Data["password"]) || len(secret.Data["password"]) < 20 {
			t.Error("the password was changed")
		}
	})
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

// TestKilled kills the operator while its requests to the payment service are under way,
// and at other times. Some of these requests take effect when the next process runs. The
// service never has two accounts of a name, and none is lost.
func TestKilled(t *testing.T) {
	b := newBench(t, kubetest.Start(t, kubetest.Options{Nodes: 2}))
	held, release := make(chan bool), make(chan struct{})
	var holds atomic.Pointer[bool] // the requests to hold are those before (false) or after (true) an account is made
	b.service.Hold = func(made bool) {
		if now := holds.Load(); now == nil || *now != made || !holds.CompareAndSwap(now, nil) {
			return
		}
		held <- made
		<-release
	}
	b.greet("Come in!")
	b.apply()
	for _, made := range []bool{true, false} {
		holds.Store(&made)
		b.start()
		select {
		case <-held:
		case <-time.After(patience):
			t.Fatal("no account is made")
		}
		b.kill()
		if made {
			release <- struct{}{} // the answer reaches nobody
			continue
		}
		b.start()
		time.Sleep(2 * time.Second) // the next process looks for the account in vain
		release <- struct{}{}
		b.untilReady()
		b.ok(b.shops.Delete(b.soon(), "corner"))
		b.ok(b.shops.UntilGone(b.soon(), "corner"))
		b.kill()
		b.apply()
	}
	for range 3 {
		b.start()
		time.Sleep(700 * time.Millisecond)
		b.kill()
	}
	b.start()
	b.untilReady()
	b.hasAccounts("", "-east", "-west")

	s, err := b.shops.Get(b.soon(), "corner")
	b.ok(err)
	before := b.service.Created(string(s.UID))
	b.kill()
	b.start()
	b.settled()
	if after := b.service.Created(string(s.UID)); after != before {
		t.Errorf("a restart made the account %d times", after-before)
	}
	b.hasAccounts("", "-east", "-west")

	b.ok(b.shops.Delete(b.soon(), "corner"))
	for range 2 {
		time.Sleep(500 * time.Millisecond)
		b.kill()
		b.start()
	}
	b.ok(b.shops.UntilGone(b.soon(), "corner"))
	b.onlyPassword()
	if n := b.service.Most(); n != 1 {
		t.Errorf("there were %d accounts of a name", n)
	}
}

// TestProgramIsShort holds the promise that the operator has about 200 lines of code below
// its imports, with the description of the accounts.
func TestProgramIsShort(t *testing.T) {
	optest.IsShort(t, "main.go", 165)
	optest.IsShort(t, "account.go", 70)
}

// TestBadInput has the server refuse invalid Shops with helpful messages.
func TestBadInput(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.Options{Nodes: 2})
	client := optest.Client(t, cluster.Config())
	op, err := describe(client)
	if err != nil {
		t.Fatal(err)
	}
	if err := crd.Install(t.Context(), client, op.Manifest.Definitions...); err != nil {
		t.Fatal(err)
	}
	shops := kube.For[Shop](client).In(cluster.Namespace(t))
	for name, test := range map[string]struct{ spec, want string }{
		"x":                     {`{}`, "spec.image: Required value"},
		"y":                     {`{"image":"a","regions":["east","east"]}`, "duplicate entries"},
		"z":                     {`{"image":"a","regions":["The East"]}`, "should match"},
		"a":                     {`{"image":"a","storage":"much"}`, "spec.storage"},
		"b":                     {`{"image":"a","limit":0}`, "greater than or equal to 1"},
		strings.Repeat("b", 31): {`{"image":"a"}`, "too long, or not a name"},
		"b.c":                   {`{"image":"a"}`, "too long, or not a name"},
	} {
		text := `{"apiVersion":"shop.example.com/v1","kind":"Shop","metadata":{"name":"` + name + `"},"spec":` + test.spec + `}`
		_, err := shops.Patch(t.Context(), name, types.ApplyYAMLPatchType, []byte(text))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", text, err, test.want)
		}
	}
}
