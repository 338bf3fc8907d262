package kube_test

import (
	"context"
	"fmt"
	"log"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/kube"
)

// A running store of the program serves the reads of a handle's Cached. As a rule that is
// the store of a controller. Otherwise the program opens one.
func ExampleReader_Cached() {
	ctx := context.Background()
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	pods := kube.For[corev1.Pod](client)
	informer := pods.Open(ctx) // once, when the program starts
	if err := informer.Sync(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("the cache has all objects of the kind", informer.Kind().Kind)

	// From here on, no read anywhere in the program makes a request.
	pod, err := pods.In("default").Cached().Get(ctx, "web")
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

// The store finds the children of an owner by the owner's uid, without a look at the others.
func ExampleCached_OwnedBy() {
	ctx := context.Background()
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	pods := kube.For[corev1.Pod](client)
	if err := pods.Open(ctx).Sync(ctx); err != nil {
		log.Fatal(err)
	}
	job, err := kube.For[batchv1.Job](client).In("default").Get(ctx, "nightly-report")
	if err != nil {
		log.Fatal(err)
	}

	failed := 0
	for pod, err := range pods.In(job.Namespace).Cached().OwnedBy(ctx, job.UID) {
		if err != nil {
			log.Fatal(err)
		}
		if pod.Status.Phase == corev1.PodFailed {
			failed++
		}
	}
	fmt.Println(failed)
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
	if err := pods.Open(ctx).Sync(ctx); err != nil {
		log.Fatal(err)
	}

	for pod, err := range byNode.Get(ctx, "node-1") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(pod.Namespace, pod.Name)
	}
}

// An informer shows which fields of an object changed, without decoding it.
func ExampleInformer_Changes() {
	ctx := context.Background()
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	informer := kube.For[corev1.Pod](client).Open(ctx)
	defer informer.Close()
	for change := range informer.Changes(ctx) {
		if change.Type != kube.Modified {
			continue
		}
		fields, err := change.Fields()
		if err != nil {
			log.Print(err)
			continue
		}
		fmt.Println(change.Key, fields)
	}
}

// The test of a predicate needs no server.
func ExampleNewChange() {
	moved := func(c kube.Change) bool {
		fields, err := c.Fields()
		return err == nil && len(fields) > 0 && fields[0] == "spec.nodeName"
	}

	was, is := new(corev1.Pod), new(corev1.Pod)
	was.Name, is.Name, is.Spec.NodeName = "web", "web", "node-1"
	change, err := kube.NewChange(was, is)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(change.Type, change.Key, moved(change))
	// Output: MODIFIED web true
}
