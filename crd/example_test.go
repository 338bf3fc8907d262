package crd_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"sigs.k8s.io/yaml"
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
	text, err := lamp.YAML()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(string(text))
}

// Install returns when the API server serves the kind.
func ExampleInstall() {
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	err = crd.Install(context.Background(), client, lamp)
	var refused *crd.IncompatibleError
	switch {
	case errors.As(err, &refused):
		for _, reason := range refused.Reasons {
			fmt.Println("a stored Lamp may not fit:", reason)
		}
	case err != nil:
		log.Fatal(err)
	}
}

// A Bulb has a wrong tag.
type Bulb struct {
	kube.Object
	Spec struct {
		Watts int32 `json:"watts" crd:"mni=1"`
	} `json:"spec"`
}

// GVK returns the kind.
func (Bulb) GVK() kube.GVK { return kube.GVK{Group: "example.com", Version: "v1", Kind: "Bulb"} }

// A mistake in a tag is an error of the definition. A test finds it without a cluster.
func ExampleDefinition_Err() {
	fmt.Println(crd.Of[Bulb](crd.Options{}).Err())
	// Output:
	// define the kind of crd_test.Bulb: crd_test.Bulb.Spec.Watts, crd:"mni=1": unknown key "mni": did you mean min?
}

// A Fan turns at a speed, in rounds a minute, or at a level.
type Fan struct {
	kube.Object
	Spec struct {
		Speed int32  `json:"speed,omitempty" crd:"min=1"`
		Level string `json:"level,omitempty" crd:"enum=low|high"`
	} `json:"spec"`
}

// GVK returns the kind.
func (Fan) GVK() kube.GVK { return kube.GVK{Group: "example.com", Version: "v1", Kind: "Fan"} }

// No tag says that a Fan has one of two fields. So the program completes the schema.
func ExampleDefinition_Version() {
	definition := crd.Of[Fan](crd.Options{})
	spec := definition.Version("v1").Schema.OpenAPIV3Schema.Properties["spec"]
	spec.OneOf = []*crd.Schema{{Required: []string{"speed"}}, {Required: []string{"level"}}}
	text, err := yaml.Marshal(spec)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(string(text))
	// Output:
	// oneOf:
	// - required:
	//   - speed
	// - required:
	//   - level
	// properties:
	//   level:
	//     enum:
	//     - low
	//     - high
	//     type: string
	//   speed:
	//     format: int32
	//     minimum: 1
	//     type: integer
	// type: object
}

// A definition of a kind without a Go type is written by hand. Its values are texts by name.
func ExampleDefinition() {
	texts := &crd.SchemaOrBool{Allows: true, Schema: &crd.Schema{Type: "string"}}
	schema := &crd.Schema{Type: "object", Properties: map[string]*crd.Schema{
		"spec": {Type: "object", AdditionalProperties: texts},
	}}
	definition := &crd.Definition{Spec: crd.Spec{
		Group: "example.com", Scope: kube.Namespaced,
		Names: crd.Names{Kind: "Label", ListKind: "LabelList", Plural: "labels", Singular: "label"},
		Versions: []crd.Version{{
			Name: "v1", Served: true, Storage: true, Schema: crd.Validation{OpenAPIV3Schema: schema},
		}},
	}}
	definition.Name = "labels.example.com"
	text, err := definition.YAML()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(string(text))
	// Output:
	// apiVersion: apiextensions.k8s.io/v1
	// kind: CustomResourceDefinition
	// metadata:
	//   name: labels.example.com
	// spec:
	//   group: example.com
	//   names:
	//     kind: Label
	//     listKind: LabelList
	//     plural: labels
	//     singular: label
	//   scope: Namespaced
	//   versions:
	//   - name: v1
	//     schema:
	//       openAPIV3Schema:
	//         properties:
	//           spec:
	//             additionalProperties:
	//               type: string
	//             type: object
	//         type: object
	//     served: true
	//     storage: true
}
