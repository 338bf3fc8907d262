// Command peer measures controller-runtime's cache. It is an ordinary program that uses
// only controller-runtime, set up as the documentation of controller-runtime shows.
package main

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/pintle-go/pintle/bench/fixture"
	"github.com/pintle-go/pintle/bench/measure"
)

func main() {
	log.SetLogger(logr.Discard())
	pods := kind{
		object: func() client.Object { return &corev1.Pod{} },
		list:   func() client.ObjectList { return &corev1.PodList{} },
		size:   func(l client.ObjectList) int { return len(l.(*corev1.PodList).Items) },
	}
	stripped := pods
	stripped.options.DefaultTransform = cache.TransformStripManagedFields()
	three := pods
	three.options.DefaultTransform = keepThreeFields
	measure.Main(map[string]measure.Store{
		"changes":           changing(),
		"pods":              pods.store(),
		"pods-stripped":     stripped.store(),
		"pods-three-fields": three.store(),
		"widgets": kind{
			object: func() client.Object { return &fixture.Widget{} },
			list:   func() client.ObjectList { return &fixture.WidgetList{} },
			size:   func(l client.ObjectList) int { return len(l.(*fixture.WidgetList).Items) },
		}.store(),
		"widgets-unstructured": kind{
			object: func() client.Object {
				u := &unstructured.Unstructured{}
				u.SetGroupVersionKind(fixture.WidgetGVK)
				return u
			},
			list: func() client.ObjectList {
				l := &unstructured.UnstructuredList{}
				l.SetGroupVersionKind(fixture.WidgetGVK.GroupVersion().WithKind("WidgetList"))
				return l
			},
			size: func(l client.ObjectList) int { return len(l.(*unstructured.UnstructuredList).Items) },
		}.store(),
	})
}

// keepThreeFields drops all of a Pod but its metadata and the three fields that ours/main.go
// names in podView.
func keepThreeFields(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	pod.ManagedFields = nil
	pod.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName}
	pod.Status = corev1.PodStatus{Phase: pod.Status.Phase, PodIP: pod.Status.PodIP}
	return pod, nil
}

// kind has the settings for caching the objects of one kind.
type kind struct {
	object  func() client.Object
	list    func() client.ObjectList
	size    func(client.ObjectList) int
	options cache.Options
}

func (k kind) store() measure.Store {
	var all cache.Cache
	return measure.Store{
		Sync: func(ctx context.Context) (err error) {
			all, err = k.start(ctx, k.options)
			return err
		},
		Len: func(ctx context.Context) (int, error) {
			l := k.list()
			err := all.List(ctx, l, client.UnsafeDisableDeepCopy)
			return k.size(l), err
		},
		Get: func(ctx context.Context, namespace, name string) error {
			return all.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, k.object())
		},
		Index: func(ctx context.Context) (measure.Lookup, error) { return k.index(ctx, all) },
		Small: func(ctx context.Context, namespace string) (measure.Lookup, error) {
			options := k.options
			options.DefaultNamespaces = map[string]cache.Config{namespace: {}}
			small, err := k.start(ctx, options)
			if err != nil {
				return nil, err
			}
			return k.index(ctx, small)
		},
	}
}

// start makes a cache, starts it and waits until it holds all objects.
func (k kind) start(ctx context.Context, options cache.Options) (cache.Cache, error) {
	cfg, err := config.GetConfig()
	if err != nil {
		return nil, err
	}
	options.Scheme = runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(options.Scheme); err != nil {
		return nil, err
	}
	if err := fixture.AddToScheme(options.Scheme); err != nil {
		return nil, err
	}
	c, err := cache.New(cfg, options)
	if err != nil {
		return nil, err
	}
	go c.Start(ctx) //nolint:errcheck // it ends with the process
	if _, err := c.GetInformer(ctx, k.object()); err != nil {
		return nil, err
	}
	if !c.WaitForCacheSync(ctx) {
		return nil, fmt.Errorf("cache did not sync: %w", ctx.Err())
	}
	return c, nil
}

const byApp = "app"

func (k kind) index(ctx context.Context, c cache.Cache) (measure.Lookup, error) {
	err := c.IndexField(ctx, k.object(), byApp, func(o client.Object) []string {
		return []string{o.GetLabels()[fixture.AppLabel]}
	})
	return func(ctx context.Context, app string) (int, error) {
		l := k.list()
		err := c.List(ctx, l, client.MatchingFields{byApp: app})
		return k.size(l), err
	}, err
}
