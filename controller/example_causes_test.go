package controller_test

import (
	"context"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
)

// A reconcile tells why it runs.
func ExampleCauses() {
	reconcile := func(ctx context.Context, g *Greeting) (controller.Action, error) {
		log := controller.Logger(ctx)
		for _, c := range controller.Causes(ctx) {
			switch c.Reason {
			case controller.Changed:
				fields, err := c.Change.Fields() // such as spec.name
				if err != nil {
					return controller.Done, err
				}
				log.Info("an object has changed", "object", c.String(), "fields", fields)
			case controller.Retried:
				log.Info("the last reconcile failed", "error", c.Err)
			case controller.Triggered:
				log.Info("a source asked for it", "source", c.Source)
			default:
				log.Info("it runs", "reason", c.Reason)
			}
		}
		return controller.Done, nil
	}
	_ = reconcile
}

// A Greeting that somebody has changed goes ahead of those whose ConfigMap has changed, and
// these go ahead of failed ones. Everything else has the priority of the package: after a
// start the objects that were listed come last.
func ExampleController_priority() {
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	greetings, texts := kube.For[Greeting](client), kube.For[corev1.ConfigMap](client)
	_ = controller.Controller[Greeting]{
		For:  greetings,
		Owns: []kube.AnyHandle{texts},
		Priority: func(c controller.Cause) controller.Priority {
			switch {
			case c.Reason == controller.Changed && c.Change.Kind() == "Greeting":
				return controller.High
			case c.Reason == controller.Changed:
				return controller.Normal
			case c.Reason == controller.Retried:
				return controller.Low
			}
			return controller.Default
		},
	}
}

// A program lists the kinds that its controllers use, for the documentation of the rights
// that it needs. No server is needed.
func ExampleHandles() {
	client, err := kube.Config{Rest: &rest.Config{Host: "https://kubernetes"}}.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	nodes, pods := kube.For[corev1.Node](client), kube.For[corev1.Pod](client)
	configMaps := kube.For[corev1.ConfigMap](client)
	c := controller.Controller[corev1.Node]{
		For:              nodes,
		Owns:             []kube.AnyHandle{configMaps},
		Reads:            []kube.AnyHandle{pods},
		FormerFinalizers: []string{"example.com/drain"},
	}
	uses := c.Handles()
	fmt.Println("for", uses.For.Kind().GVK.Kind, "writes:", uses.Writes, "finalizers:", uses.Finalizes)
	for _, h := range uses.Owns {
		fmt.Println("owns", h.Kind().GVK.Kind)
	}
	for _, h := range uses.Reads {
		fmt.Println("reads", h.Kind().GVK.Kind)
	}
	// Output:
	// for Node writes: true finalizers: true
	// owns ConfigMap
	// reads Pod
}
