package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pintle-go/pintle/bench/fixture"
)

// writers is the number of objects that are written at a time.
const writers = 16

// load fills the cluster with n Pods and n Widgets. Objects from an earlier run on a kept
// cluster stay unchanged.
func load(ctx context.Context, out io.Writer, cfg *rest.Config, n int) error {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), fixture.AddToScheme(scheme)); err != nil {
		return err
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	if err := prepare(ctx, c); err != nil {
		return err
	}
	c, err = client.New(cfg, client.Options{Scheme: scheme}) // a client that knows the new kind
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	for _, kind := range []struct {
		name   string
		list   client.ObjectList
		create func(i int) error
	}{
		{"Pods", &corev1.PodList{}, func(i int) error { return loadPod(ctx, c, i) }},
		{"custom resources", &fixture.WidgetList{}, func(i int) error { return loadWidget(ctx, c, i) }},
	} {
		there, err := count(ctx, c, kind.list)
		if err != nil {
			return err
		}
		if there == n {
			continue
		}
		if err := inParallel(ctx, out, kind.name, n, kind.create); err != nil {
			return err
		}
	}
	return nil
}

// count asks the server for the number of objects of a kind.
func count(ctx context.Context, c client.Client, l client.ObjectList, options ...client.ListOption) (int, error) {
	if err := c.List(ctx, l, append(options, client.Limit(1))...); err != nil {
		return 0, fmt.Errorf("count objects: %w", err)
	}
	n := meta.LenList(l)
	if more := l.GetRemainingItemCount(); more != nil {
		n += int(*more)
	}
	return n, nil
}

func loadPod(ctx context.Context, c client.Client, i int) error {
	p := fixture.Pod(i)
	err := c.Create(ctx, p, client.FieldOwner(fixture.SpecManager))
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err != nil {
		return err
	}
	fixture.SetPodStatus(p, i)
	return c.Status().Update(ctx, p, client.FieldOwner(fixture.StatusManager))
}

func loadWidget(ctx context.Context, c client.Client, i int) error {
	w := fixture.NewWidget(i)
	status := w.Status
	err := c.Create(ctx, w, client.FieldOwner(fixture.SpecManager))
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err != nil {
		return err
	}
	w.Status = status
	return c.Status().Update(ctx, w, client.FieldOwner("widget-controller"))
}

// prepare creates the namespaces, their service accounts and the custom kind.
func prepare(ctx context.Context, c client.Client) error {
	crd, err := fixture.WidgetCRD()
	if err != nil {
		return err
	}
	objects := []client.Object{crd}
	for i := range fixture.Namespaces {
		ns := fixture.Namespace(i)
		objects = append(objects,
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}},
			// Without a controller nothing else creates the account, and Pods need it.
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: ns}})
	}
	for _, o := range objects {
		if err := c.Create(ctx, o); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create %T %s: %w", o, o.GetName(), err)
		}
	}
	return waitServed(ctx, c, fixture.WidgetGVK.Group, fixture.WidgetGVK.Version, "WidgetList")
}

// waitServed waits until the server lists the objects of a new custom kind.
func waitServed(ctx context.Context, c client.Client, group, version, listKind string) error {
	l := &unstructured.UnstructuredList{}
	l.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: version, Kind: listKind})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		err := c.List(ctx, l, client.Limit(1))
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return fmt.Errorf("wait for the custom kind: %w", err)
		}
	}
}

// inParallel calls create for 0 to n-1, and prints the progress every few seconds.
func inParallel(ctx context.Context, out io.Writer, what string, n int, create func(i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	start := time.Now()
	var next, done atomic.Int64
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := create(i); err != nil {
					cancel(fmt.Errorf("write %s: %w", what, err))
					return
				}
				done.Add(1)
			}
		})
	}
	finished := make(chan struct{})
	go func() { wg.Wait(); close(finished) }()
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			fmt.Fprintf(out, "  %d of %d %s\n", done.Load(), n, what)
		case <-finished:
			if err := context.Cause(ctx); err != nil {
				return err
			}
			if n > 1 {
				fmt.Fprintf(out, "  %d %s in %s\n", n, what, time.Since(start).Round(time.Second))
			}
			return nil
		}
	}
}
