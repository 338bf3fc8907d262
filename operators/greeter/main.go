// Command greeter keeps a ConfigMap with a text for each Greeting.
package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/manifest"
	"github.com/pintle-go/pintle/program"
)

// A Greeting asks for a ConfigMap of its own name, with a text in it.
type Greeting struct {
	kube.Object
	Spec struct {
		Name string `json:"name" crd:"minLength=1,column"`
	} `json:"spec"`
}

// GVK returns the kind.
func (Greeting) GVK() kube.GVK {
	return kube.GVK{Group: "example.com", Version: "v1", Kind: "Greeting"}
}

func describe(client *kube.Client) (program.Operator, error) {
	greetings, texts := kube.For[Greeting](client), kube.For[corev1.ConfigMap](client)
	reconcile := func(ctx context.Context, g *Greeting) (controller.Action, error) {
		text := &corev1.ConfigMap{Data: map[string]string{"text": "Hello, " + g.Spec.Name}}
		text.Name = g.Name
		if err := kube.SetController(greetings, g, texts, text); err != nil {
			return controller.Done, err
		}
		_, err := texts.Ensure(ctx, text)
		return controller.Done, err
	}
	greeter := controller.Controller[Greeting]{For: greetings, Owns: []kube.AnyHandle{texts}, Reconcile: reconcile}
	return program.Operator{
		Name:        "greeter",
		Image:       "ghcr.io/pintle-go/greeter:v0.1.0",
		Controllers: []controller.Any{greeter},
		Definitions: []*crd.Definition{crd.Of[Greeting](crd.Options{})},
		Needs:       []manifest.Rules{manifest.Applies(texts)},
	}, nil
}

func main() { program.Main(describe) }
