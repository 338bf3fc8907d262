package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/bench/fixture"
	"github.com/pintle-go/pintle/bench/measure"
	"github.com/pintle-go/pintle/kube"
)

// changing measures the store of Pods, indexed by apps, while a loop decodes each Pod that changes.
func changing() measure.Store {
	var all *kube.Informer
	return measure.Store{
		Follow: func(ctx context.Context, saw func(string)) error {
			client, err := kube.Connect()
			if err != nil {
				return err
			}
			pods := kube.For[corev1.Pod](client).ReadOnly()
			kube.IndexBy(pods, func(p *corev1.Pod) []string { return []string{p.Labels[fixture.AppLabel]} })
			all = pods.Open(ctx)
			if err := all.Sync(ctx); err != nil {
				return err
			}
			go func() {
				for c := range all.Changes(ctx) {
					if p, err := kube.DecodeNow[corev1.Pod](c); err == nil && p != nil {
						saw(p.ResourceVersion)
					}
				}
			}()
			return nil
		},
		Len: func(context.Context) (int, error) { return all.Stats().Objects, nil },
	}
}
