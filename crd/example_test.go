package crd_test

import (
	"context"
	"fmt"
	"log"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
)

// A Lamp is a lamp. With Options.Source the comments become descriptions.
type Lamp struct {
	kube.Object
	Spec struct {
		Watts  int32  `json:"watts" crd:"min=1,max=100,column"`
		Colour string `json:"colour,omitempty" crd:"enum=red|green|blue,default=red"`
	} `json:"spec"`
	_ struct{} `crd:"rule='self.spec.colour != \"blue\" || self.spec.watts < 50',message='blue lamps are weak'"`
}

// GVK returns the kind.
func (Lamp) GVK() kube.GVK { return kube.GVK{Group: "example.com", Version: "v1", Kind: "Lamp"} }

var lamp = crd.Of[Lamp](crd.Options{})

// A definition follows from a Go struct, its tags and its comments.
func ExampleOf() {
	yaml, err := lamp.YAML()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(string(yaml))
}

// Install returns when the API server serves the kind.
func ExampleInstall() {
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	if err := crd.Install(context.Background(), client, lamp); err != nil {
		log.Fatal(err) // an *crd.IncompatibleError, if stored objects may not fit
	}
}
