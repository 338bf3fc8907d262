// Command ours measures pintle's stores. It is an ordinary program that uses only package
// kube, set up as the documentation of kube shows.
package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/bench/fixture"
	"github.com/pintle-go/pintle/bench/measure"
	"github.com/pintle-go/pintle/kube"
)

// podView has the three fields of a Pod that a load balancer needs.
type podView struct {
	kube.Object
	Spec struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		Phase corev1.PodPhase `json:"phase"`
		PodIP string          `json:"podIP"`
	} `json:"status"`
}

var widgetKind = kube.Kind{GVK: fixture.WidgetGVK}

func main() {
	measure.Main(map[string]measure.Store{
		"pods": stored(
			func(c *kube.Client) kube.Reader[corev1.Pod] { return kube.For[corev1.Pod](c).ReadOnly() },
			func(p *corev1.Pod) []string { return []string{p.Labels[fixture.AppLabel]} }),
		"changes": changing(),
		"view": stored(
			func(c *kube.Client) kube.Reader[podView] {
				return kube.ViewOf[podView](c, kube.KindOf[corev1.Pod]()).ReadOnly()
			},
			func(p *podView) []string { return []string{p.Labels[fixture.AppLabel]} }),
		"widgets": stored(
			func(c *kube.Client) kube.Reader[fixture.Widget] {
				return kube.For[fixture.Widget](c, widgetKind).ReadOnly()
			},
			func(w *fixture.Widget) []string { return []string{w.Labels[fixture.AppLabel]} }),
	})
}

// stored measures the store of the objects that handle reads, indexed by apps.
func stored[T any](handle func(*kube.Client) kube.Reader[T], apps func(*T) []string) measure.Store {
	var everything kube.Reader[T]
	var all *kube.Informer
	return measure.Store{
		Sync: func(ctx context.Context) error {
			client, err := kube.Connect()
			if err != nil {
				return err
			}
			everything = handle(client)
			all = everything.Open(ctx)
			return all.Sync(ctx)
		},
		Len: func(context.Context) (int, error) { return all.Stats().Objects, nil },
		Get: func(ctx context.Context, namespace, name string) error {
			_, err := everything.In(namespace).Cached().Get(ctx, name)
			return err
		},
		Index: func(ctx context.Context) (measure.Lookup, error) { return indexed(ctx, everything, apps) },
		Small: func(ctx context.Context, namespace string) (measure.Lookup, error) {
			client, err := kube.Connect()
			if err != nil {
				return nil, err
			}
			small := handle(client).In(namespace)
			small.Open(ctx)
			return indexed(ctx, small, apps)
		},
	}
}

// indexed builds an index of a handle's store and counts the objects found in it.
func indexed[T any](ctx context.Context, handle kube.Reader[T], apps func(*T) []string) (measure.Lookup, error) {
	byApp := kube.IndexBy(handle, apps)
	if _, err := byApp.Keys(ctx); err != nil {
		return nil, err
	}
	return func(ctx context.Context, app string) (int, error) {
		n := 0
		for _, err := range byApp.Get(ctx, app) {
			if err != nil {
				return n, err
			}
			n++
		}
		return n, nil
	}, nil
}
