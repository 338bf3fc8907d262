package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pintle-go/pintle/bench/peerecho/api"
)

// echoes are the Echoes of the bench, in a namespace of their own. The bench uses them as
// their users do: directly on the server, without the proxy.
type echoes struct {
	client    client.Client
	namespace string
	out       io.Writer
}

// openEchoes creates the namespace.
func openEchoes(ctx context.Context, out io.Writer, cfg *rest.Config) (echoes, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	e := echoes{namespace: "bench-echo", out: out}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), api.AddToScheme(scheme)); err != nil {
		return e, err
	}
	var err error
	if e.client, err = client.New(cfg, client.Options{Scheme: scheme}); err != nil {
		return e, fmt.Errorf("connect: %w", err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.namespace}}
	if err := e.client.Create(ctx, ns); err != nil && !apierrors.IsAlreadyExists(err) {
		return e, fmt.Errorf("create namespace: %w", err)
	}
	return e, nil
}

func (e echoes) close(ctx context.Context) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.namespace}}
	return client.IgnoreNotFound(e.client.Delete(ctx, ns))
}

func echoName(i int) string { return fmt.Sprintf("echo-%05d", i) }

// create creates the Echoes with the numbers in a range.
func (e echoes) create(ctx context.Context, from, to int) error {
	return inParallel(ctx, e.out, "Echoes", to-from, func(i int) error {
		return e.client.Create(ctx, &api.Echo{
			ObjectMeta: metav1.ObjectMeta{Namespace: e.namespace, Name: echoName(from + i)},
			Spec:       api.EchoSpec{Replicas: 1},
		})
	})
}

// scale changes the number of servers that an Echo asks for. It returns the time when the
// change was sent and the time when the server had confirmed it.
func (e echoes) scale(ctx context.Context, name string, replicas int) (sent, confirmed time.Time, err error) {
	echo := &api.Echo{ObjectMeta: metav1.ObjectMeta{Namespace: e.namespace, Name: name}}
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	sent = time.Now()
	err = e.client.Patch(ctx, echo, client.RawPatch(types.MergePatchType, patch))
	return sent, time.Now(), err
}

// awaitReady waits until there are n Echoes and all report that they are ready.
func (e echoes) awaitReady(ctx context.Context, n int) error {
	return e.poll(ctx, fmt.Sprintf("of %d Echoes are ready", n), func() (int, bool, error) {
		var l api.EchoList
		if err := e.client.List(ctx, &l, client.InNamespace(e.namespace)); err != nil {
			return 0, false, err
		}
		ready := 0
		for i := range l.Items {
			if isReadyEcho(&l.Items[i]) {
				ready++
			}
		}
		return ready, ready == n, nil
	})
}

// isReadyEcho reports whether all servers that the Echo asks for answer.
func isReadyEcho(e *api.Echo) bool {
	c := meta.FindStatusCondition(e.Status.Conditions, api.ConditionReady)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == e.Generation &&
		e.Status.ReadyReplicas == e.Spec.Replicas
}

// deleteAll deletes all Echoes and waits until nothing is left of them. Their operator
// must run.
func (e echoes) deleteAll(ctx context.Context) error {
	var l api.EchoList
	if err := e.client.List(ctx, &l, client.InNamespace(e.namespace)); err != nil {
		return fmt.Errorf("list Echoes: %w", err)
	}
	err := inParallel(ctx, e.out, "deletions of Echoes", len(l.Items), func(i int) error {
		return client.IgnoreNotFound(e.client.Delete(ctx, &l.Items[i]))
	})
	if err != nil {
		return err
	}
	return e.poll(ctx, "objects are left to delete", func() (int, bool, error) {
		left := 0
		for _, l := range []client.ObjectList{
			&api.EchoList{}, &appsv1.DeploymentList{}, &appsv1.ReplicaSetList{}, &corev1.PodList{}, &corev1.ServiceList{}, &discoveryv1.EndpointSliceList{},
		} {
			n, err := count(ctx, e.client, l, client.InNamespace(e.namespace))
			if err != nil {
				return 0, false, err
			}
			left += n
		}
		return left, left == 0, nil
	})
}

// pollEvery is long, because each poll takes the server's time.
const pollEvery = 2 * time.Second

// poll calls ask until it is done, and prints the progress from time to time.
func (e echoes) poll(ctx context.Context, what string, ask func() (n int, done bool, err error)) error {
	every := 50 * time.Millisecond // short at first, so that a quick change is seen soon
	for said := time.Now(); ; every = min(2*every, pollEvery) {
		n, done, err := ask()
		if err != nil {
			return fmt.Errorf("see how many %s: %w", what, err)
		}
		if done {
			return nil
		}
		if time.Since(said) > 15*time.Second {
			fmt.Fprintf(e.out, "    %d %s\n", n, what)
			said = time.Now()
		}
		if err := sleep(ctx, every); err != nil {
			return fmt.Errorf("%d %s: %w", n, what, err)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
