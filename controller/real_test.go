package controller

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
)

// patience is how long a test waits for an event that should take a moment. It also
// covers the time that a store waits before it asks again for a kind that is not there.
const patience = 90 * time.Second

// bench is a namespace of a real API server.
type bench struct {
	*testing.T
	cluster   *kubetest.Cluster
	client    *kube.Client
	namespace string
	parents   kube.Resource[corev1.ConfigMap] // labelled role=parent
	children  kube.Resource[corev1.Secret]
	log       *logs
}

func newBench(t *testing.T) *bench {
	t.Helper()
	if testing.Short() {
		t.Skip("needs an API server")
	}
	cluster := kubetest.Start(t, kubetest.Options{ServerOnly: true})
	b := &bench{T: t, cluster: cluster, log: new(logs)}
	b.client = b.connect(nil)
	b.in(cluster.Namespace(t))
	return b
}

// in makes the handles of a namespace.
func (b *bench) in(namespace string) {
	b.namespace = namespace
	b.parents = kube.For[corev1.ConfigMap](b.client).In(namespace).Labeled("role=parent")
	b.children = kube.For[corev1.Secret](b.client).In(namespace)
}

// sub is the bench in a subtest.
func (b *bench) sub(t *testing.T) *bench {
	sub := *b
	sub.T, sub.log = t, new(logs)
	return &sub
}

// wire sees every request, and may keep the request or its answer from arriving.
type wire func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error)

type wireTransport struct {
	http.RoundTripper
	wire wire
}

func (t wireTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.wire(r, func() (*http.Response, error) { return t.RoundTripper.RoundTrip(r) })
}

// WrappedRoundTripper lets idle connections be closed.
func (t wireTransport) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }

// connect returns a client with its own connections.
func (b *bench) connect(w wire, change ...func(*rest.Config)) *kube.Client {
	b.Helper()
	config := b.cluster.Config()
	if w != nil {
		config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return wireTransport{rt, w} })
	}
	for _, f := range change {
		f(config)
	}
	client, err := kube.Config{Rest: config, Logger: slog.New(b.log)}.Connect()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(client.Close)
	return client
}

// start runs controllers until the test ends or stop is called. stop waits for the end.
func (b *bench) start(o Options, controllers ...Any) (stop func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	if o.Logger == nil {
		o.Logger = slog.New(b.log)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := Run(ctx, o, controllers...); err != nil {
			b.Error(err)
		}
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(patience):
			b.Fatal("Run does not return")
		}
	})
	b.Cleanup(stop)
	return stop
}

func parent(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"role": "parent"}}}
}

func (b *bench) create(name string) *corev1.ConfigMap {
	b.Helper()
	o, err := b.parents.Create(b.Context(), parent(name))
	if err != nil {
		b.Fatal(err)
	}
	return o
}

func (b *bench) delete(name string) {
	b.Helper()
	if err := b.parents.Delete(b.Context(), name); err != nil {
		b.Fatal(err)
	}
}

// eventually waits until a condition holds. Its failure shows the end of the log.
func (b *bench) eventually(what string, ok func() bool) {
	b.Helper()
	kubetest.Eventually(b, what, func() error {
		if !ok() {
			return fmt.Errorf("not so, and the log ends with\n%s", b.log.tail(30))
		}
		return nil
	})
}

// applyChild is a reconcile that applies a child of the same name.
func (b *bench) applyChild(ctx context.Context, p *corev1.ConfigMap) (Action, error) {
	child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: p.Name}, StringData: map[string]string{"of": p.Name}}
	if err := kube.SetController(b.parents, p, b.children, child); err != nil {
		return Done, err
	}
	_, err := b.children.Apply(ctx, child)
	return Done, err
}

func (b *bench) hasChild(name string) bool {
	_, err := b.children.Get(b.Context(), name)
	if err != nil && !apierrors.IsNotFound(err) {
		b.Fatal(err)
	}
	return err == nil
}

// A child is created, and comes back each time it is deleted.
func TestOwnedChildComesBack(t *testing.T) {
	b := newBench(t)
	b.create("old")
	b.start(Options{}, Controller[corev1.ConfigMap]{
		For: b.parents, Owns: []kube.AnyHandle{b.children}, Reconcile: b.applyChild,
	})
	b.eventually("a child of what was there", func() bool { return b.hasChild("old") })
	b.create("new")
	b.eventually("a child of what is new", func() bool { return b.hasChild("new") })
	for range 5 {
		if err := b.children.Delete(t.Context(), "new"); err != nil {
			t.Fatal(err)
		}
		b.eventually("the child is back", func() bool { return b.hasChild("new") })
	}
}
