package controller_test

import (
	"context"
	"fmt"
	"log"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/lease"
)

// A Greeting asks for a ConfigMap with a text.
type Greeting struct {
	kube.Object
	Spec struct {
		Name string `json:"name"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions,omitempty"`
	} `json:"status,omitzero"`
}

func (Greeting) GVK() kube.GVK {
	return kube.GVK{Group: "example.com", Version: "v1", Kind: "Greeting"}
}

// A whole operator. For every Greeting it keeps a ConfigMap, and the Greeting's status
// tells that the ConfigMap is there.
func Example() {
	ctx, stop := controller.Signals()
	defer stop()
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	greetings, texts := kube.For[Greeting](client), kube.For[corev1.ConfigMap](client)

	reconcile := func(ctx context.Context, g *Greeting) (controller.Action, error) {
		if g.Spec.Name == "" {
			return controller.Done, controller.Terminal(fmt.Errorf("nobody is to be greeted"))
		}
		text := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: g.Name},
			Data: map[string]string{"text": "Hello, " + g.Spec.Name}}
		if err := kube.SetController(greetings, g, texts, text); err != nil {
			return controller.Done, err
		}
		if _, err := texts.Ensure(ctx, text); err != nil {
			return controller.Done, err
		}
		controller.SetCondition(g, &g.Status.Conditions, metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue})
		return controller.After(time.Hour), greetings.Status().Ensure(ctx, g)
	}

	err = controller.Run(ctx, controller.Options{Lease: lease.Lease{Name: "greeter"}, Address: ":8080"},
		controller.Controller[Greeting]{For: greetings, Owns: []kube.AnyHandle{texts}, Reconcile: reconcile},
	)
	if err != nil {
		log.Fatal(err)
	}
}

// A reconcile reads from memory by the handle's Cached. The controller names the kinds
// that it only reads, so that stores of them run. An index is a value beside the handle.
func ExampleController_reads() {
	ctx, stop := controller.Signals()
	defer stop()
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	greetings, pods := kube.For[Greeting](client), kube.For[corev1.Pod](client)
	byNode := kube.IndexBy(pods, func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })

	reconcile := func(ctx context.Context, g *Greeting) (controller.Action, error) {
		pod, err := pods.In(g.Namespace).Cached().Get(ctx, g.Name) // no request
		if err != nil {
			return controller.Done, err
		}
		neighbours := 0
		for _, err := range byNode.Get(ctx, pod.Spec.NodeName) {
			if err != nil {
				return controller.Done, err
			}
			neighbours++
		}
		controller.Logger(ctx).Info("greeted", "neighbours", neighbours)
		return controller.Done, nil
	}

	err = controller.Run(ctx, controller.Options{},
		controller.Controller[Greeting]{For: greetings, Reads: []kube.AnyHandle{pods}, Reconcile: reconcile},
	)
	if err != nil {
		log.Fatal(err)
	}
}

// A Letter is written from a template, which is a ConfigMap.
type Letter struct {
	kube.Object
	Spec struct {
		Template string `json:"template"`
	} `json:"spec"`
	Status struct {
		Text string `json:"text"`
	} `json:"status,omitzero"`
}

func (Letter) GVK() kube.GVK {
	return kube.GVK{Group: "example.com", Version: "v1", Kind: "Letter"}
}

func (l *Letter) template() kube.Key {
	return kube.Key{Namespace: l.Namespace, Name: l.Spec.Template}
}

// The change of a ConfigMap reconciles all Letters that refer to it. The reconcile reads the
// ConfigMap from memory. The operator in operators/letter is the whole program.
func ExampleReferenced() {
	ctx, stop := controller.Signals()
	defer stop()
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	letters, templates := kube.For[Letter](client), kube.For[corev1.ConfigMap](client)

	err = controller.Run(ctx, controller.Options{}, controller.Controller[Letter]{
		For: letters,
		Watches: []controller.Source{controller.Referenced(templates, func(l *Letter) []kube.Key {
			return []kube.Key{l.template()}
		})},
		Reconcile: func(ctx context.Context, l *Letter) (controller.Action, error) {
			template, err := templates.In(l.Namespace).Cached().Get(ctx, l.Spec.Template)
			if err != nil {
				return controller.Done, err
			}
			l.Status.Text = template.Data["text"]
			return controller.Done, letters.Status().Ensure(ctx, l)
		},
	})
	if err != nil {
		log.Fatal(err)
	}
}

// A unit test of an operator's wiring needs no server.
func ExampleValidate() {
	err := controller.Validate(controller.Options{}, controller.Controller[Greeting]{Name: "greeting"})
	fmt.Println(err)
	// Output: configure controller "greeting": the handle For is missing
}
