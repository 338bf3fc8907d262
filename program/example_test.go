package program_test

import (
	"context"
	"embed"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/lease"
	"github.com/pintle-go/pintle/manifest"
	"github.com/pintle-go/pintle/program"
)

// A Greeting asks for a ConfigMap with a text.
type Greeting struct {
	kube.Object
	Spec struct {
		// Name is the name to greet.
		Name string `json:"name" crd:"minLength=1,column"`
	} `json:"spec"`
}

func (Greeting) GVK() kube.GVK {
	return kube.GVK{Group: "example.com", Version: "v1", Kind: "Greeting"}
}

//go:embed example_test.go
var source embed.FS // its comments become descriptions in the definition

var definition = crd.Of[Greeting](crd.Options{Source: source})

// A whole operator, which also prints the objects that a cluster needs to run it:
//
//	greeter manifests | kubectl apply --server-side -f -
func ExampleMain() { program.Main(describe) }

// A program takes the place of one that was called greeter-operator. Under its field manager
// the first applies remove the fields that only the former program has set.
func ExampleProgram_Main() {
	program.Program{Config: kube.Config{FieldManager: "greeter-operator"}}.Main(describe)
}

func describe(client *kube.Client) (program.Operator, error) {
	greetings, texts := kube.For[Greeting](client), kube.For[corev1.ConfigMap](client)
	greeter := controller.Controller[Greeting]{
		For:  greetings,
		Owns: []kube.AnyHandle{texts},
		Reconcile: func(ctx context.Context, g *Greeting) (controller.Action, error) {
			text := &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: g.Name},
				Data:       map[string]string{"text": "Hello, " + g.Spec.Name},
			}
			if err := kube.SetController(greetings, g, texts, text); err != nil {
				return controller.Done, err
			}
			_, err := texts.Ensure(ctx, text)
			return controller.Await, err
		},
	}
	return program.Operator{
		Name:        "greeter",
		Image:       "ghcr.io/example/greeter:v1.0.0",
		Controllers: []controller.Any{greeter},
		Definitions: []*crd.Definition{definition},
		Options:     controller.Options{Lease: lease.Lease{Name: "greeter"}},
		Needs:       []manifest.Rules{manifest.Applies(texts)},
	}, nil
}
