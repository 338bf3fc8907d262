package manifest

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/event"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/lease"
)

// Gadget is the kind of the operator that these tests render and run.
type Gadget struct {
	kube.Object
	Spec struct {
		Note string `json:"note"`
	} `json:"spec"`
	Status struct {
		Seen string `json:"seen,omitempty"`
	} `json:"status,omitzero"`
}

func (Gadget) GVK() kube.GVK { return kube.GVK{Group: "manifest.test", Version: "v1", Kind: "Gadget"} }

// gadgetry is an operator that uses every sort of request.
type gadgetry struct {
	namespace string // empty: all
	gadgets   kube.Resource[Gadget]
	maps      kube.Resource[corev1.ConfigMap]
	events    *event.Recorder
}

func newGadgetry(t testing.TB, config *rest.Config, namespace string) *gadgetry {
	t.Helper()
	client, err := kube.Config{Rest: config, Logger: slog.New(slog.DiscardHandler)}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	g := &gadgetry{
		namespace: namespace,
		gadgets:   kube.For[Gadget](client),
		maps:      kube.For[corev1.ConfigMap](client),
		events: &event.Recorder{
			Client: client, Controller: "manifest.test/gadgetry", Logger: slog.New(slog.DiscardHandler),
		},
	}
	if namespace != "" {
		g.gadgets, g.maps = g.gadgets.In(namespace), g.maps.In(namespace)
	}
	return g
}

func (g *gadgetry) controller() controller.Controller[Gadget] {
	return controller.Controller[Gadget]{
		Name:      "gadgetry",
		For:       g.gadgets,
		Owns:      []kube.AnyHandle{g.maps},
		Reconcile: g.reconcile,
		Cleanup:   func(context.Context, *Gadget) (controller.Action, error) { return controller.Done, nil },
		Backoff:   controller.Backoff{},
	}
}

func (g *gadgetry) reconcile(ctx context.Context, o *Gadget) (controller.Action, error) {
	m := new(corev1.ConfigMap)
	m.Name, m.Namespace = o.Name, o.Namespace
	m.Data = map[string]string{"note": o.Spec.Note}
	if err := kube.SetController(g.gadgets, o, g.maps, m); err != nil {
		return controller.Done, err
	}
	if _, err := g.maps.Apply(ctx, m); err != nil {
		return controller.Done, err
	}
	g.events.Normal(o, "Copied", "into a ConfigMap")
	if o.Status.Seen == o.Spec.Note {
		return controller.Done, nil
	}
	o.Status.Seen = o.Spec.Note
	return controller.Done, g.gadgets.Status().Apply(ctx, o)
}

// run runs the operator until ctx ends.
func (g *gadgetry) run(ctx context.Context) error {
	options := controller.Options{
		Lease:  lease.Lease{Name: "gadgetry", Namespace: g.namespace, Renew: time.Second},
		Logger: slog.New(slog.DiscardHandler),
		Grace:  5 * time.Second,
	}
	var recording sync.WaitGroup
	defer recording.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	recording.Go(func() { _ = g.events.Run(ctx) })
	return controller.Run(ctx, options, g.controller())
}

// operator returns the operator's description for the manifests.
func (g *gadgetry) operator(t testing.TB) Operator {
	t.Helper()
	definition := crd.Of[Gadget](crd.Options{})
	if err := definition.Err(); err != nil {
		t.Fatal(err)
	}
	var eventsIn []string
	if g.namespace != "" {
		eventsIn = []string{g.namespace}
	}
	return Operator{
		Name:        "gadgetry",
		Image:       "example.com/gadgetry:v1.2.3",
		Controllers: []controller.Any{g.controller()},
		Definitions: []*crd.Definition{definition},
		Options:     controller.Options{Address: ":8080", ProbeAddress: ":8081", Lease: lease.Lease{Name: "gadgetry"}},
		Needs:       []Rules{Applies(g.maps), Events(eventsIn...)},
		Install: Install{
			Namespace:   g.namespace,
			Args:        []string{"-copies=one"},
			Replicas:    2,
			Version:     "1.2.3",
			Description: "Copies notes",
		},
	}
}
