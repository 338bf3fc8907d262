// Command gizmo-operator runs pods for objects of kind Gizmo.
//
//	go run .              # run the operator against the kubeconfig's cluster
//	go run . manifests    # print the objects that a cluster needs to run it
//	go run . -h           # list the flags
package main

import (
	"embed"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/event"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/lease"
	"github.com/pintle-go/pintle/manifest"
	"github.com/pintle-go/pintle/program"
)

// The comments in this file become descriptions in the CustomResourceDefinition.
//
//go:embed types.go
var source embed.FS

var definition = crd.Of[Gizmo](crd.Options{Source: source})

func main() { program.Main(describe) }

// describe returns the operator: its controllers, and the rights that they need.
func describe(client *kube.Client) (program.Operator, error) {
	op := operator{
		gizmos:      kube.For[Gizmo](client),
		deployments: kube.For[appsv1.Deployment](client),
	}
	control := controller.Controller[Gizmo]{
		For:       op.gizmos,
		Owns:      []kube.AnyHandle{op.deployments},
		Reconcile: op.reconcile,
		Failed:    op.failed,
	}
	return program.Operator{
		Name:        "gizmo-operator",
		Image:       "registry.example.com/gizmo-operator:v0.1.0",
		Controllers: []controller.Any{control},
		Definitions: []*crd.Definition{definition},
		Options: controller.Options{
			Lease:  lease.Lease{Name: "gizmo-operator"},
			Events: &event.Recorder{Controller: "gizmo.example.org/gizmo-operator"},
		},
		// The rights of reconcile. The test compares them with its requests.
		Needs: []manifest.Rules{
			manifest.Applies(op.deployments),
		},
	}, nil
}
