package crd_test

import (
	"embed"
	"strings"
	"testing"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

type kubeObject interface {
	metav1.Object
	GetObjectKind() schema.ObjectKind
}

//go:embed echo_test.go
var source embed.FS

// An Echo asks for a number of echo servers.
type Echo struct {
	kube.Object
	Spec struct {
		// Replicas is how many there are to be.
		Replicas int32  `json:"replicas" crd:"min=0,max=100,column"`
		Image    string `json:"image,omitempty" crd:"minLength=1,selectable"` // Image is what they run.
	} `json:"spec"`
	Status struct {
		Ready      int32              `json:"ready" crd:"column"`
		Conditions []metav1.Condition `json:"conditions,omitempty"`
	} `json:"status,omitzero"`
}

func (Echo) GVK() kube.GVK { return kube.GVK{Group: "crd.pintle.test", Version: "v1", Kind: "Echo"} }

// TestEcho goes from an operator's Go type to the first object.
func TestEcho(t *testing.T) {
	def := crd.Of[Echo](crd.Options{
		ShortNames: []string{"ec"},
		Source:     source,
		Scale:      &crd.Scale{StatusReplicasPath: ".status.ready"},
	})
	if err := def.Err(); err != nil {
		t.Fatal(err)
	}
	text, err := def.YAML()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"description: An Echo asks for a number of echo servers.",
		"description: Replicas is how many there are to be.",
		"description: Image is what they run.",
		"plural: echoes",
		"specReplicasPath: .spec.replicas",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("it lacks %q", want)
		}
	}
	s := start(t)
	s.install(t, def)
	echoes := kube.For[Echo](s.client).In(s.namespace)
	e := &Echo{}
	e.Name, e.Spec.Replicas = "first", 3
	if _, err := echoes.Create(soon(t), e); err != nil {
		t.Fatal(err)
	}
	e.Name, e.Spec.Replicas = "second", 101
	_, err = echoes.Create(soon(t), e)
	if err == nil || !strings.Contains(err.Error(), "spec.replicas") {
		t.Errorf("too many: %v", err)
	}
}
