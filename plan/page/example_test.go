package page_test

import (
	"context"
	"log"
	"os"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/plan"
	"github.com/pintle-go/pintle/plan/page"
)

// A Site is made of the nodes of a plan.
type Site struct {
	kube.Object
	Status struct {
		plan.Status `json:",inline"`
	} `json:"status,omitzero"`
}

func (Site) GVK() kube.GVK { return kube.GVK{Group: "example.com", Version: "v1", Kind: "Site"} }

// The operator shows the plans of its Sites at /plans/, to those whose tokens may read that
// path, and remembers the causes and errors of the last reconciles.
func ExampleNew() {
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	sites := kube.For[Site](client)
	reconcile := func(ctx context.Context, s *Site) (controller.Action, error) {
		return plan.New(sites, s, &s.Status.Status).Run(ctx)
	}
	shown := page.New(sites, func(s *Site) *plan.Status { return &s.Status.Status })
	address := ":8080"
	if os.Getenv("KUBERNETES_SERVICE_HOST") == "" { // it does not run in a pod
		address, shown.Open = "127.0.0.1:8080", true // only this machine reaches it, so nobody needs a token
	}
	ctx, stop := controller.Signals()
	defer stop()
	err = controller.Run(ctx, controller.Options{Address: address, Routes: shown.Routes("/plans/")},
		controller.Controller[Site]{For: sites, Reconcile: shown.Remember(reconcile)})
	if err != nil {
		log.Fatal(err)
	}
}
