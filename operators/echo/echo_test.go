package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/internal/optest"
	"github.com/pintle-go/pintle/operators/internal/program"
)

var binary = optest.Binary{Package: "github.com/pintle-go/pintle/operators/echo"}

func TestMain(m *testing.M) {
	optest.Main(m, &binary)
}

// patience is the longest time that a step may take on a busy machine.
const patience = 90 * time.Second

// A bench is a namespace of a cluster with nodes, and the operator on it after it was
// started.
type bench struct {
	*testing.T
	client      *kube.Client
	kubeconfig  string
	namespace   string
	operator    *program.Program
	echoes      kube.Resource[Echo]
	deployments kube.Resource[appsv1.Deployment]
	services    kube.Resource[corev1.Service]
	pods        kube.Resource[corev1.Pod]
}

func newBench(t *testing.T, client *kube.Client, kubeconfig, namespace string) *bench {
	t.Helper()
	b := &bench{
		T: t, client: client, kubeconfig: kubeconfig, namespace: namespace,
		echoes:      kube.For[Echo](client).In(namespace),
		deployments: kube.For[appsv1.Deployment](client).In(namespace),
		services:    kube.For[corev1.Service](client).In(namespace),
		pods:        kube.For[corev1.Pod](client).In(namespace),
	}
	return b
}

// simulated is a bench on simulated nodes, with the operator beside it.
func simulated(t *testing.T) *bench {
	t.Helper()
	cluster := kubetest.Start(t, kubetest.Options{Nodes: 2})
	namespace := cluster.Namespace(t)
	b := newBench(t, optest.Client(t, cluster.Config()), optest.Kubeconfig(t, cluster.Config(), namespace, ""), namespace)
	b.start()
	return b
}

// start starts the operator, and returns when it reconciles.
func (b *bench) start() {
	b.Helper()
	b.operator = binary.Run(b.T, b.kubeconfig, "-addr=127.0.0.1:0")
	optest.Expect(b.T, b.operator, "controller runs", "controller=echo")
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

func (b *bench) apply(name string, replicas int32) {
	b.Helper()
	e := new(Echo)
	e.Name, e.Spec.Replicas = name, replicas
	e.Spec.Image = "inanimate/echo-server"
	_, err := b.echoes.Apply(b.soon(), e)
	b.ok(err)
}

func (b *bench) until(name string, what string, holds func(*Echo) bool) *Echo {
	b.Helper()
	e, err := b.echoes.Until(b.soon(), name, holds)
	if err != nil {
		b.Fatalf("wait until %s: %v", what, err)
	}
	return e
}

// ready reports whether all servers of an Echo answer, according to its status.
func ready(e *Echo) bool {
	c := meta.FindStatusCondition(e.Status.Conditions, "Ready")
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == e.Generation &&
		e.Status.ReadyReplicas == e.Spec.Replicas
}

// writes counts the requests that write, except those that renew the lease.
func (b *bench) writes() int {
	b.Helper()
	return optest.Metric(b.T, b.operator, `rest_client_requests_total\{.*method="(?:PATCH|POST|DELETE)"`)
}

// TestEcho takes an Echo through its life.
func TestEcho(t *testing.T) {
	b := simulated(t)
	b.apply("web", 2)
	e := b.until("web", "the Echo is ready", ready)
	if e.Status.Replicas != 2 || e.Status.Selector != "app.kubernetes.io/instance=web,app.kubernetes.io/name=echo" {
		t.Errorf("status: %+v", e.Status)
	}
	s, err := b.services.Get(t.Context(), "web")
	b.ok(err)
	if p := s.Spec.Ports; len(p) != 1 || p[0].Port != 80 || p[0].TargetPort.IntValue() != 8080 ||
		!metav1.IsControlledBy(s, e) {
		t.Errorf("service: %+v", s)
	}

	t.Run("what is changed by hand comes back, what is added stays", func(t *testing.T) {
		patch := func(p string) {
			t.Helper()
			_, err := b.deployments.Patch(t.Context(), "web", types.StrategicMergePatchType, []byte(p))
			b.ok(err)
		}
		patch(
			`{"metadata":{"labels":{"app.kubernetes.io/name":"other","added":"label"}},"spec":{"replicas":5,"template":{"spec":{"containers":[
			{"name":"echo","image":"other","env":[{"name":"ADDED","value":"by hand"}]},{"name":"added","image":"sidecar"}]}}}}`,
		)
		d, err := b.deployments.Until(b.soon(), "web", func(d *appsv1.Deployment) bool {
			c := d.Spec.Template.Spec.Containers
			return *d.Spec.Replicas == 2 && c[0].Image == "inanimate/echo-server" && d.Labels["app.kubernetes.io/name"] == "echo"
		})
		b.ok(err)
		c := d.Spec.Template.Spec.Containers
		if len(c) != 2 || len(c[0].Env) != 1 || d.Labels["added"] != "label" {
			t.Errorf("a field that was added has gone: %+v", d)
		}
		_, err = b.services.Patch(
			t.Context(),
			"web",
			types.MergePatchType,
			[]byte(`{"spec":{"selector":{"app.kubernetes.io/instance":"other"}}}`),
		)
		b.ok(err)
		_, err = b.services.Until(
			b.soon(), "web", func(s *corev1.Service) bool { return s.Spec.Selector["app.kubernetes.io/instance"] == "web" },
		)
		b.ok(err)
		b.until("web", "the Echo is ready again", ready)
	})
	t.Run("what is deleted comes back", func(t *testing.T) {
		d, err := b.deployments.Get(t.Context(), "web")
		b.ok(err)
		b.ok(b.deployments.Delete(t.Context(), "web"))
		b.ok(b.services.Delete(t.Context(), "web"))
		_, err = b.deployments.Until(b.soon(), "web", func(n *appsv1.Deployment) bool { return n.UID != d.UID })
		b.ok(err)
		_, err = b.services.Until(b.soon(), "web", func(n *corev1.Service) bool { return n.UID != s.UID })
		b.ok(err)
		b.until("web", "the Echo is ready again", ready)
	})
	t.Run("it is scaled, as kubectl scale does it, and changed", func(t *testing.T) {
		scale := kube.Sub[autoscalingv1.Scale](b.echoes, "scale")
		_, err := scale.Patch(t.Context(), "web", types.MergePatchType, []byte(`{"spec":{"replicas":4}}`))
		b.ok(err)
		b.until("web", "it has four servers", func(e *Echo) bool { return ready(e) && e.Status.Replicas == 4 })
		if s, err := scale.Get(t.Context(), "web"); err != nil || s.Status.Replicas != 4 || s.Status.Selector == "" {
			t.Errorf("scale: %+v, %v", s, err)
		}
		_, err = b.echoes.Patch(
			t.Context(),
			"web",
			types.MergePatchType,
			[]byte(`{"spec":{"replicas":1,"image":"other:v2"}}`),
		)
		b.ok(err)
		d, err := b.deployments.Until(
			b.soon(), "web", func(d *appsv1.Deployment) bool { return d.Spec.Template.Spec.Containers[0].Image == "other:v2" },
		)
		b.ok(err)
		if *d.Spec.Replicas != 1 {
			t.Errorf("%d replicas", *d.Spec.Replicas)
		}
		b.until("web", "it is ready", ready)
	})
	t.Run("in the steady state nothing is written", func(t *testing.T) { b.steady() })
	t.Run("deleted, it leaves nothing", func(t *testing.T) {
		b.ok(b.echoes.Delete(t.Context(), "web"))
		b.ok(b.echoes.UntilGone(b.soon(), "web"))
		if _, err := b.services.Get(t.Context(), "web"); !apierrors.IsNotFound(err) {
			t.Errorf("the Service outlives its Echo: %v", err)
		}
		b.ok(b.deployments.UntilGone(b.soon(), "web"))
		b.noPods()
	})
}

// steady waits until the operator writes nothing for a while.
func (b *bench) steady() {
	b.Helper()
	optest.AtRest(b, "the operator writes nothing", b.writes)
}

// noPods waits until there are no pods.
func (b *bench) noPods() {
	b.Helper()
	kubetest.Eventually(b, "there are no pods", func() error {
		if n := count(b, b.pods.Reader); n > 0 {
			return fmt.Errorf("%d are left", n)
		}
		return nil
	})
}

func count[T any](b *bench, objects kube.Reader[T]) (n int) {
	b.Helper()
	for _, err := range objects.List(b.Context()) {
		b.ok(err)
		n++
	}
	return n
}

// TestBadInput has the server refuse invalid Echoes with helpful messages.
func TestBadInput(t *testing.T) {
	b := simulated(t)
	for name, test := range map[string]struct{ yaml, want string }{
		"no replicas":    {`{"metadata":{"name":"x"},"spec":{}}`, "spec.replicas: Required value"},
		"too few":        {`{"metadata":{"name":"x"},"spec":{"replicas":-1}}`, "should be greater than or equal to 0"},
		"a word":         {`{"metadata":{"name":"x"},"spec":{"replicas":"two"}}`, ".spec.replicas: expected numeric (int or float), got string"},
		"no image":       {`{"metadata":{"name":"x"},"spec":{"replicas":1,"image":""}}`, "spec.image in body should be at least 1 chars long"},
		"name with dots": {`{"metadata":{"name":"x.y"},"spec":{"replicas":1}}`, "not a name for a Service"},
	} {
		yaml := strings.Replace(test.yaml, `{`, `{"apiVersion":"example.com/v1","kind":"Echo",`, 1)
		object := regexp.MustCompile(`"name":"([^"]*)"`).FindStringSubmatch(yaml)[1]
		_, err := b.echoes.Patch(t.Context(), object, types.ApplyYAMLPatchType, []byte(yaml))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}

// TestQuota has the operator report on the Echo that a quota stops it, and continue when
// the quota is gone.
func TestQuota(t *testing.T) {
	b := simulated(t)
	quotas := kube.For[corev1.ResourceQuota](b.client).In(b.namespace)
	full := &corev1.ResourceQuota{
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/deployments.apps": resource.MustParse("0")}},
	}
	full.Name = "full"
	_, err := quotas.Apply(t.Context(), full)
	b.ok(err)
	_, err = quotas.Until(b.soon(), "full", func(q *corev1.ResourceQuota) bool { return len(q.Status.Hard) > 0 })
	b.ok(err)
	b.apply("web", 1)
	b.until("web", "it says why not", func(e *Echo) bool {
		c := meta.FindStatusCondition(e.Status.Conditions, "Ready")
		return c != nil && c.Status == metav1.ConditionFalse && c.Reason == "Failed" &&
			strings.Contains(c.Message, "exceeded quota: full")
	})
	optest.Expect(t, b.operator, "exceeded quota: full")
	events := kube.For[eventsv1.Event](b.client).In(b.namespace)
	kubetest.Eventually(b, "an event says so", func() error {
		if countIf(b, events.Reader, func(e *eventsv1.Event) bool {
			return e.Type == corev1.EventTypeWarning && e.Regarding.Kind == "Echo" && e.Regarding.Name == "web" &&
				strings.Contains(e.Note, "exceeded quota: full")
		}) == 0 {
			return fmt.Errorf("none of %d does", count(b, events.Reader))
		}
		return nil
	})
	b.ok(quotas.Delete(t.Context(), "full"))
	b.until("web", "it is ready", ready)
}

// TestProgramIsShort checks the promise that the whole operator has at most 130 lines of
// code below its imports.
func TestProgramIsShort(t *testing.T) { optest.IsShort(t, "main.go", 130) }
