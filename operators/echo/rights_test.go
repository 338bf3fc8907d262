package main

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/internal/optest"
	"github.com/pintle-go/pintle/operators/internal/program"
)

const account = "echo-operator"

// TestRights runs the program with a token of its service account, under exactly the
// roles that it prints, and under those roles without one verb at a time, for some verbs.
func TestRights(t *testing.T) { underRights(t, optest.Sample) }

// TestSoakRights leaves out each right.
func TestSoakRights(t *testing.T) { underRights(t, optest.Each) }

func underRights(t *testing.T, choose func([]optest.Right) []optest.Right) {
	cluster := kubetest.Start(t, kubetest.Options{ServerOnly: true})
	client := optest.Client(t, cluster.Config())
	op, err := describe(client)
	if err != nil {
		t.Fatal(err)
	}
	if err := crd.Install(t.Context(), client, op.Definitions...); err != nil {
		t.Fatal(err)
	}
	all := binary.Rights(t)

	optest.UnderRights(t, all, choose, op, func(t *testing.T, without ...optest.Right) *optest.Proxy {
		t.Parallel()
		s := newScene(t, cluster, client, all, without...)
		s.play()
		return s.proxy
	})
	t.Run("taken away and given back", func(t *testing.T) {
		t.Parallel()
		testRevoked(t, newScene(t, cluster, client, all), all)
	})
}

// scene is the program in a namespace, with the rights of its service account.
type scene struct {
	*testing.T
	client      *kube.Client
	namespace   string
	proxy       *optest.Proxy
	account     optest.Account
	operator    *program.Program
	echoes      kube.Resource[Echo]
	deployments kube.Resource[appsv1.Deployment]
	services    kube.Resource[corev1.Service]
	lease       *optest.Lease
}

func newScene(
	t *testing.T, cluster *kubetest.Cluster, client *kube.Client, all []optest.Right, without ...optest.Right,
) *scene {
	t.Helper()
	namespace := cluster.Namespace(t)
	s := &scene{
		T: t, client: client, namespace: namespace,
		proxy:       optest.StartProxy(t, cluster.Config(), namespace),
		echoes:      kube.For[Echo](client).In(namespace),
		deployments: kube.For[appsv1.Deployment](client).In(namespace),
		services:    kube.For[corev1.Service](client).In(namespace),
	}
	s.lease = optest.HoldLease(t, client, account, s.proxy)
	s.account = optest.NewAccount(t, client, cluster.Config(), namespace, account, all, without...)
	s.operator = binary.Run(t, s.account.Kubeconfig(s.proxy), "-addr=127.0.0.1:0", "-install=false", "-lease")
	return s
}

func (s *scene) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// play has the program do everything that it can, until a request is refused.
func (s *scene) play() {
	s.Helper()
	for _, step := range []func(){s.acquire, s.create, s.renew, s.lose, s.fail, s.delete} {
		if step(); len(s.proxy.Used.Refused()) > 0 {
			return
		}
	}
	// The recorder writes the last repetitions of events at the end.
	s.ok(s.operator.Signal(syscall.SIGTERM))
	if code := optest.ExpectEnd(s, s.operator); code != 0 {
		s.Errorf("status %d", code)
	}
}

func (s *scene) create() {
	s.Helper()
	s.apply("one", 1)
	s.until("the Echo has all", func() bool { return s.says("one", "Servers", "0 of 1 servers answer") })
}

// renew deletes the lease, which the program then creates again.
func (s *scene) renew() {
	s.Helper()
	s.lease.Delete()
	s.until("there is a lease again", s.lease.Exists)
}

// lose drops answers to writes, so that the program must ask for the results.
func (s *scene) lose() {
	s.Helper()
	for _, path := range []string{"/services/one", "/deployments/one", "/echoes/one/status"} {
		s.proxy.Lose("^PATCH .*/namespaces/" + s.namespace + path + "$")
	}
	_, err := s.services.Patch(
		s.Context(),
		"one",
		types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"app.kubernetes.io/name":"other"}}}`),
	)
	s.ok(err)
	s.apply("one", 2)
	s.until("the Echo has two", func() bool { return s.says("one", "Servers", "0 of 2 servers answer") })
}

// fail creates a Deployment that belongs to somebody else. The operator leaves it alone,
// and reports that again and again.
func (s *scene) fail() {
	s.Helper()
	labels := map[string]string{"app": "other"}
	other := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "other", Image: "other"}}},
		},
	}}
	other.Name = "two"
	other, err := s.deployments.Create(s.Context(), other)
	s.ok(err)
	s.apply("two", 1)
	s.until(
		"the second Echo cannot have it",
		func() bool { return s.says("two", "Failed", "an object of this name already exists") },
	)
	s.until("that is tried again", func() bool {
		lines, _ := s.operator.Lines()
		return strings.Count(strings.Join(lines, "\n"), "an object of this name already exists") > 1
	})
	if is, err := s.deployments.Get(s.Context(), "two"); err != nil || is.ResourceVersion != other.ResourceVersion {
		s.Errorf("somebody else's Deployment was changed: %+v, %v", is, err)
	}
}

func (s *scene) delete() {
	s.Helper()
	for _, name := range []string{"one", "two"} {
		s.ok(s.echoes.Delete(s.Context(), name))
		s.until(name+" is gone", func() bool {
			_, err := s.echoes.Get(s.Context(), name)
			return apierrors.IsNotFound(err)
		})
	}
}

// acquire gives the lease to the program while the program watches it.
func (s *scene) acquire() {
	s.Helper()
	s.until("the program waits for the lease", func() bool { return s.lease.Awaited(s.operator) })
	s.lease.Release()
}

func (s *scene) apply(name string, replicas int32) {
	s.Helper()
	e := new(Echo)
	e.Name, e.Spec.Replicas, e.Spec.Image = name, replicas, "inanimate/echo-server"
	_, err := s.echoes.Apply(s.Context(), e)
	s.ok(err)
}

// says reports whether the condition Ready of an Echo has a reason and a message.
func (s *scene) says(name, reason, message string) bool {
	e, err := s.echoes.Get(s.Context(), name)
	s.ok(err)
	return len(e.Status.Conditions) == 1 && e.Status.Conditions[0].Reason == reason &&
		strings.Contains(e.Status.Conditions[0].Message, message)
}

// until waits for a condition, or for a refused request.
func (s *scene) until(what string, holds func() bool) {
	s.Helper()
	kubetest.Eventually(s, what, func() error {
		if len(s.proxy.Used.Refused()) == 0 && !holds() {
			lines, _ := s.operator.Lines()
			return fmt.Errorf("not so, no request was refused, and the operator has said\n| %s", strings.Join(lines, "\n| "))
		}
		return nil
	})
}

// testRevoked takes rights away from the running program, and gives them back.
func testRevoked(t *testing.T, s *scene, all []optest.Right) {
	s.acquire()
	s.apply("before", 1)
	s.wait("before", "Servers", "0 of 1")

	create := optest.Right{Role: "ClusterRole", Group: "apps", Resource: "deployments", Verb: "create"}
	s.account.Grant(all, create)
	optest.AwaitRight(t, s.client, s.namespace, account, create, false)
	s.apply("after", 1)
	s.wait("after", "Failed", `cannot create resource "deployments"`)
	optest.Expect(t, s.operator, "reconcile failed", `cannot create resource \"deployments\"`, "retryIn=")
	events := kube.For[eventsv1.Event](s.client).In(s.namespace)
	kubetest.Eventually(t, "an event says so", func() error {
		var notes []string
		for e, err := range events.List(t.Context()) {
			s.ok(err)
			notes = append(notes, e.Regarding.Name+": "+e.Note)
		}
		if !slices.ContainsFunc(notes, func(n string) bool {
			return strings.Contains(n, "after: ") && strings.Contains(n, "cannot create resource")
		}) {
			return fmt.Errorf("events are %q", notes)
		}
		return nil
	})
	s.account.Grant(all)
	s.wait("after", "Servers", "0 of 1")

	// Without the right to list and watch Services the operator continues with its cache,
	// and logs the trouble; afterwards it sees the changes made meanwhile.
	blind := []optest.Right{
		{Role: "ClusterRole", Resource: "services", Verb: "list"},
		{Role: "ClusterRole", Resource: "services", Verb: "watch"},
	}
	s.account.Grant(all, blind...)
	for _, r := range blind {
		optest.AwaitRight(t, s.client, s.namespace, account, r, false)
	}
	s.proxy.Cut()
	optest.Expect(t, s.operator, "store is out of sync", `resource \"services\"`, "forbidden")
	s.ok(s.services.Delete(t.Context(), "before"))
	s.account.Grant(all)
	optest.Expect(t, s.operator, "store recovered", "Service")
	kubetest.Eventually(t, "the Service comes back", func() error {
		_, err := s.services.Get(t.Context(), "before")
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		return err
	})
}

// wait waits until the condition Ready of an Echo has a reason and a message.
func (s *scene) wait(name, reason, message string) {
	s.Helper()
	kubetest.Eventually(s, fmt.Sprintf("%s says %s, %s", name, reason, message), func() error {
		if s.says(name, reason, message) {
			return nil
		}
		e, err := s.echoes.Get(s.Context(), name)
		s.ok(err)
		return fmt.Errorf("%+v", e.Status)
	})
}
