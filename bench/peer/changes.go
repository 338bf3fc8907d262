package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/config"

	"github.com/pintle-go/pintle/bench/fixture"
	"github.com/pintle-go/pintle/bench/measure"
)

// changing measures client-go's informer of Pods, indexed by apps, with a handler that gets each
// Pod that changes. Like ours, it keeps no managedFields.
func changing() measure.Store {
	var all cache.SharedIndexInformer
	return measure.Store{
		Follow: func(ctx context.Context, saw func(string)) error {
			pods, err := podsClient()
			if err != nil {
				return err
			}
			byApp := func(o any) ([]string, error) { return []string{o.(*corev1.Pod).Labels[fixture.AppLabel]}, nil }
			all = cache.NewSharedIndexInformer(
				cache.NewListWatchFromClient(pods, "pods", metav1.NamespaceAll, fields.Everything()),
				&corev1.Pod{}, 0, cache.Indexers{byAppIndex: byApp})
			if err := all.SetTransform(withoutManagedFields); err != nil {
				return err
			}
			_, err = all.AddEventHandler(cache.ResourceEventHandlerFuncs{
				AddFunc:    func(o any) { saw(o.(*corev1.Pod).ResourceVersion) },
				UpdateFunc: func(_, o any) { saw(o.(*corev1.Pod).ResourceVersion) },
			})
			if err != nil {
				return err
			}
			go all.RunWithContext(ctx)
			if !cache.WaitForCacheSync(ctx.Done(), all.HasSynced) {
				return fmt.Errorf("cache did not sync: %w", ctx.Err())
			}
			return nil
		},
		Len: func(context.Context) (int, error) { return len(all.GetStore().ListKeys()), nil },
	}
}

const byAppIndex = "app"

func withoutManagedFields(o any) (any, error) {
	if p, ok := o.(*corev1.Pod); ok {
		p.ManagedFields = nil
	}
	return o, nil
}

func podsClient() (rest.Interface, error) {
	cfg, err := config.GetConfig()
	if err != nil {
		return nil, err
	}
	cfg.APIPath, cfg.GroupVersion = "/api", &corev1.SchemeGroupVersion
	cfg.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf
	return rest.RESTClientFor(cfg)
}
