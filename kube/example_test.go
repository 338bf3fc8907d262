package kube_test

import (
	"context"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/kube"
)

// Reads of a handle's Cached are served by a store that runs in the program: by that of
// a controller, as a rule, or else by one that the program has opened.
func ExampleReader_Cached() {
	ctx := context.Background()
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	pods := kube.For[corev1.Pod](client)
	store := pods.Store(ctx) // once, when the program starts
	if err := store.Sync(ctx); err != nil {
		log.Fatal(err)
	}

	// From here on, anywhere in the program, no request is made.
	pod, err := pods.In("default").Cached().Get(ctx, kube.Key{Name: "web"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(pod.Status.Phase)
	for pod, err := range pods.In("default").Cached().Labeled(ctx, "app=web") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(pod.Name)
	}
}

// An index is a value beside the handle. The store builds it.
func ExampleIndexBy() {
	ctx := context.Background()
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	pods := kube.For[corev1.Pod](client)
	byNode := kube.IndexBy(pods, func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
	store := pods.Store(ctx)
	if err := store.Sync(ctx); err != nil {
		log.Fatal(err)
	}

	for pod, err := range byNode.Get(ctx, "node-1") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(pod.Namespace, pod.Name)
	}
}
