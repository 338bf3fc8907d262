package crd_test

import (
	"embed"
	"os"
	"reflect"
	"testing"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"sigs.k8s.io/yaml"
)

//go:embed replace_test.go
var replaceSource embed.FS

// A Book is something to read.
type Book struct {
	kube.Object
	Spec struct {
		// The title, as it is printed on the cover.
		Title string `json:"title" crd:"minLength=1,column"`
		// Who wrote it.
		Authors []string `json:"authors,omitempty"`
	} `json:"spec"`
}

// GVK names the kind.
func (Book) GVK() kube.GVK {
	return kube.GVK{Group: "example.technosophos.com", Version: "v1", Kind: "Book"}
}

// A Foo is a name with some information about it.
type Foo struct {
	kube.Object
	Spec FooSpec `json:"spec"`
}

type FooSpec struct {
	Name string `json:"name"`
	Info string `json:"info" crd:"column"`
}

// GVK names the kind.
func (Foo) GVK() kube.GVK { return kube.GVK{Group: "clux.dev", Version: "v1", Kind: "Foo"} }

// For definitions that operators ship and that were written by hand, Of makes equal
// definitions from Go types. Only the order differs.
func TestHandWritten(t *testing.T) {
	for file, of := range map[string]func(crd.Options) *crd.Definition{
		"../operators/book/crd.yaml":       crd.Of[Book],
		"../operators/foo/deploy/crd.yaml": crd.Of[Foo],
	} {
		d := of(crd.Options{Source: replaceSource})
		ours, err := d.YAML()
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := os.ReadFile(file)
		if os.IsNotExist(err) {
			t.Logf("%s is not there any more", file)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		var a, b any
		if err := yaml.Unmarshal(ours, &a); err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(theirs, &b); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%s: the type makes\n%s", file, ours)
		}
		var back crd.Definition
		if err := yaml.Unmarshal(ours, &back); err != nil {
			t.Fatal(err)
		}
		if want := (crd.Definition{Object: d.Object, Spec: d.Spec, Status: d.Status}); !reflect.DeepEqual(back, want) {
			t.Errorf("decoded: %+v", back)
		}
	}
}
