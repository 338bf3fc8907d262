package pod_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pintle-go/pintle/internal/leak"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kube/pod"
	"github.com/pintle-go/pintle/kubetest"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

func TestMain(m *testing.M) { os.Exit(leak.Run(m)) }

// The functions that need a kubelet are tested on a real node, in the cluster module.

type server struct {
	pods     kube.Resource[corev1.Pod]
	budgets  kube.Resource[policyv1.PodDisruptionBudget]
	requests atomic.Int32
}

func start(t *testing.T) *server {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a cluster")
	}
	cluster := kubetest.Start(t, kubetest.Options{ServerOnly: true})
	s := new(server)
	client, err := kube.Config{Rest: cluster.Config(), Observe: func(kube.RequestInfo) { s.requests.Add(1) }}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	namespace := cluster.Namespace(t)
	s.pods = kube.For[corev1.Pod](client).In(namespace)
	s.budgets = kube.For[policyv1.PodDisruptionBudget](client).In(namespace)
	return s
}

func (s *server) create(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	no := false
	p, err := s.pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{AutomountServiceAccountToken: &no,
			Containers: []corev1.Container{{Name: "c", Image: "i"}, {Name: "d", Image: "i"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestEvict(t *testing.T) {
	s := start(t)
	ctx := t.Context()
	s.create(t, "free")
	if err := pod.Evict(ctx, s.pods, "free", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.pods.Get(ctx, "free"); !apierrors.IsNotFound(err) {
		t.Errorf("after its eviction: %v", err)
	}
	if err := pod.Evict(ctx, s.pods, "free", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("evicted twice: %v", err)
	}

	// A budget without a controller allows nothing. Pending pods may always go.
	p := s.create(t, "held")
	p.Status.Phase = corev1.PodRunning
	if err := s.pods.Status().Update(ctx, p); err != nil {
		t.Fatal(err)
	}
	if _, err := s.budgets.Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "b"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "held"}},
		},
	}); err != nil {
		t.Fatal(err)
	}
	before := s.requests.Load()
	err := pod.Evict(ctx, s.pods, "held", metav1.DeleteOptions{})
	if !errors.Is(err, pod.ErrDisruptionBudget) || !apierrors.IsTooManyRequests(err) {
		t.Errorf("got error %v", err)
	}
	if n := s.requests.Load() - before; n != 1 {
		t.Errorf("a budget's answer was asked for %d times", n)
	}
	if _, err := s.pods.Get(ctx, "held"); err != nil {
		t.Error(err)
	}
	// Evict works on a view, as a dry run, and with a precondition.
	view := kube.ViewOf[metav1.PartialObjectMetadata](clientOf(t, s), kube.KindOf[corev1.Pod]()).In(p.Namespace)
	s.create(t, "dry")
	if err := pod.Evict(ctx, view.With(kube.WriteOptions{DryRun: true}), "dry", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	other := p.UID
	if err := pod.Evict(ctx, view, "dry",
		metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}}); !apierrors.IsConflict(err) {
		t.Errorf("another uid: %v", err)
	}
	if _, err := s.pods.Get(ctx, "dry"); err != nil {
		t.Error(err)
	}
}

func clientOf(t *testing.T, s *server) *kube.Client {
	t.Helper()
	at, err := kube.Locate(t.Context(), s.pods, "find", "x", "status")
	if err != nil {
		t.Fatal(err)
	}
	client, err := kube.Config{Rest: at.Config}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// TestSentences asks for things that a pod without a node, or a pod that does not exist,
// cannot have.
func TestSentences(t *testing.T) {
	s := start(t)
	ns := s.create(t, "p").Namespace
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command, run := []string{"true"}, pod.Streams{Container: "c", Stdout: new(bytes.Buffer)}
	for name, c := range map[string]struct {
		err  error
		is   func(error) bool
		want string
	}{
		"logs of which container": {logs(ctx, s, "p"), apierrors.IsBadRequest,
			"get Pod/log NS/p: a container name must be specified for pod p, choose one of: [c d]"},
		"logs of no pod": {logs(ctx, s, "q"), apierrors.IsNotFound, `get Pod/log NS/q: pods "q" not found`},
		"exec": {pod.Exec(ctx, s.pods, "p", command, run), apierrors.IsBadRequest,
			"exec Pod/exec NS/p: pod p does not have a host assigned"},
		"exec in no pod": {pod.Exec(ctx, s.pods, "q", command, run), apierrors.IsNotFound,
			`exec Pod/exec NS/q: pods "q" not found`},
		"no command": {pod.Exec(ctx, s.pods, "p", nil, pod.Streams{}), nil, "exec Pod p: no command is given"},
		"attach to no pod": {pod.Attach(ctx, s.pods, "q", pod.Streams{Stdout: new(bytes.Buffer)}),
			apierrors.IsNotFound, `attach Pod/attach NS/q: pods "q" not found`},
		"forward": {pod.PortForward(ctx, s.pods, "p", 80, pod.PortForwardOptions{}), apierrors.IsBadRequest,
			"forward port of Pod/portforward NS/p: pod p does not have a host assigned"},
		"forward of no pod": {pod.PortForward(ctx, s.pods, "q", 80, pod.PortForwardOptions{}), apierrors.IsNotFound,
			`forward port of Pod/portforward NS/q: pods "q" not found`},
		"no port": {pod.PortForward(ctx, s.pods, "p", 0, pod.PortForwardOptions{}), nil,
			"forward port of Pod/portforward NS/p: from 0 to 0: ports are between 1 and 65535"},
		"no namespace": {pod.Exec(ctx, kube.For[corev1.Pod](clientOf(t, s)), "p", command, run), func(err error) bool {
			return errors.Is(err, kube.ErrScope)
		},
			"exec Pod p: wrong scope: Pod is namespaced: set the namespace with In"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.err == nil || strings.ReplaceAll(c.err.Error(), ns, "NS") != c.want {
				t.Errorf("got error\n%v\nwant\n%s", c.err, c.want)
			}
			if c.is != nil && !c.is(c.err) {
				t.Errorf("not told by its type: %#v", errors.Unwrap(c.err))
			}
		})
	}
}

func logs(ctx context.Context, s *server, name string) error {
	r, err := pod.Logs(ctx, s.pods, name, corev1.PodLogOptions{})
	if err == nil {
		r.Close()
	}
	return err
}

// TestUnreachable connects to an address without a server.
func TestUnreachable(t *testing.T) {
	client, err := kube.Config{Rest: &rest.Config{Host: "https://127.0.0.1:1"}}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	pods := kube.For[corev1.Pod](client).In("a")
	for _, err := range []error{
		pod.Exec(t.Context(), pods, "p", []string{"true"}, pod.Streams{}),
		pod.PortForward(t.Context(), pods, "p", 80, pod.PortForwardOptions{}),
	} {
		if !errors.Is(err, kube.ErrUnreachable) || !strings.Contains(err.Error(), "at 127.0.0.1:1 (is it running?") {
			t.Errorf("got error %v", err)
		}
	}
}
