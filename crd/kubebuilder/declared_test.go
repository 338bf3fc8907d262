package kubebuilder_test

import (
	"embed"
	"encoding/json"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/crd/kubebuilder"
	"github.com/pintle-go/pintle/kube"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The markers of this file are read as those of a program's own types.
//
//go:embed declared_test.go
var declaredSource embed.FS

// box is generic.
// +kubebuilder:validation:MinProperties=1
type box[T any] struct {
	// In is inside.
	// +kubebuilder:validation:MinItems=2
	In []T `json:"in,omitempty"`
}

// +kubebuilder:validation:MaxProperties=3
type textBox box[string]

// word is a word.
// +kubebuilder:validation:MaxLength=9
type word string

type (
	// +kubebuilder:validation:MinLength=2
	longWord word
	// +kubebuilder:validation:MinLength=3
	wordPointer *word
)

// +kubebuilder:validation:Pattern=`^a`
type alias = string

// +kubebuilder:validation:MaxLength=1
type wordAlias = word

// +kubebuilder:validation:MaxItems=4
type aliases [2]alias

type condition metav1.Condition

type ports corev1.ServiceSpec

// +kubebuilder:validation:Maximum=5
type small uint8

// +kubebuilder:validation:Schemaless
// +kubebuilder:validation:Type=object
type loop struct {
	Next *loop `json:"next,omitempty"`
}

// +kubebuilder:pruning:PreserveUnknownFields
type anything struct{ json.RawMessage }

type sealed struct{ json.RawMessage }

type undocumented longWord

// declaredTypes has a field for each way in which a type is declared.
type declaredTypes struct {
	Text    textBox                `json:"text,omitzero"`
	Numbers box[int]               `json:"numbers,omitzero"`
	Long    longWord               `json:"long,omitempty"`
	Pointer wordPointer            `json:"pointer,omitempty"`
	Deep    map[string][]*longWord `json:"deep,omitempty"`
	// +kubebuilder:validation:MaxLength=7
	Alias    alias            `json:"alias,omitempty"`
	Maps     map[string]alias `json:"maps,omitempty"`
	Aliases  aliases          `json:"aliases,omitempty"`
	Word     wordAlias        `json:"word,omitempty"`
	State    condition        `json:"state,omitzero"`
	Service  ports            `json:"service,omitzero"`
	Loop     loop             `json:"loop,omitzero"`
	Anything anything         `json:"anything,omitzero"`
	// +kubebuilder:validation:XPreserveUnknownFields
	Sealed sealed `json:"sealed,omitzero"`
	Tagged sealed `json:"tagged,omitzero" crd:"preserveUnknownFields"`
	// +kubebuilder:validation:EmbeddedResource
	Resource sealed `json:"resource,omitzero"`
	// +kubebuilder:validation:Maximum=300
	// +kubebuilder:validation:ExclusiveMinimum=true
	Small small `json:"small,omitempty"`
	// +kubebuilder:validation:Maximum=4
	Loose small `json:"loose,omitempty" crd:"max=9"`
	// +kubebuilder:validation:MaxItems=3
	// +kubebuilder:validation:Type=array
	// +kubebuilder:validation:Schemaless
	List []loops `json:"list,omitempty"`
	// +kubebuilder:validation:MultipleOf=3
	// +k8s:minimum=1 # more than none
	Steps steps        `json:"steps,omitempty"`
	Plain undocumented `json:"plain,omitempty"`
	// +kubebuilder:default=first
	// +default=ref(Second)
	First string `json:"first,omitempty"`
	// +optional
	// +k8s:required
	Must []word `json:"must"`
	// +required
	// +kubebuilder:validation:Optional
	Free word `json:"free"`
	// +optional
	// +kubebuilder:validation:Required
	Forced word `json:"forced,omitempty"`
}

type loops struct {
	Loops []loops `json:"loops"`
}

// +kubebuilder:validation:MultipleOf=2
type steps int64

// holder is a kind with a spec.
type holder[S any] struct {
	kube.Object
	Spec S `json:"spec"`
}

func (holder[S]) GVK() kube.GVK {
	return kube.GVK{Group: "example.com", Version: "v1", Kind: "Holder"}
}

func define[S any](source fs.FS) *crd.Definition {
	return crd.Of[holder[S]](crd.Options{Source: source, Markers: kubebuilder.Tags})
}

// schema returns the schema of a spec.
func schema[S any](t *testing.T, source fs.FS) *crd.Schema {
	t.Helper()
	d := define[S](source)
	if err := d.Err(); err != nil {
		t.Fatal(err)
	}
	return d.Version("v1").Schema.OpenAPIV3Schema.Properties["spec"]
}

// file returns a source with a text and the kind of define.
func file(text string) fs.FS {
	const holder = "package kubebuilder_test\ntype holder[S any] struct { Spec S }\n"
	return fstest.MapFS{"a.go": {Data: []byte(text)}, "holder.go": {Data: []byte(holder)}}
}

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var values [2]any
	for i, data := range [][]byte{a, b} {
		if err := json.Unmarshal(data, &values[i]); err != nil {
			t.Fatal(err)
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}

// A type has the markers of the type that it is declared as, however the source declares
// it.
func TestDeclaredTypes(t *testing.T) {
	s := schema[declaredTypes](t, declaredSource)
	for path, want := range map[string]string{
		"text":      `{"description":"box is generic.","type":"object","minProperties":1,"maxProperties":3}`,
		"text.in":   `{"description":"In is inside.","type":"array","minItems":2}`,
		"numbers":   `{"description":"box is generic.","type":"object","minProperties":1}`,
		"long":      `{"description":"word is a word.","type":"string","minLength":2,"maxLength":9}`,
		"pointer":   `{"description":"word is a word.","type":"string","minLength":3,"maxLength":9}`,
		"deep.*.*":  `{"type":"string","minLength":2,"maxLength":9}`,
		"alias":     `{"type":"string","maxLength":7,"pattern":"^a"}`,
		"maps.*":    `{"type":"string","pattern":"^a"}`,
		"aliases":   `{"type":"array","minItems":2,"maxItems":2}`,
		"aliases.*": `{"type":"string","pattern":"^a"}`,
		"word":      `{"description":"word is a word.","type":"string","maxLength":9}`,
		"loop":      `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`,
		"anything":  `{"x-kubernetes-preserve-unknown-fields":true}`,
		"sealed":    `{"x-kubernetes-preserve-unknown-fields":true}`,
		"tagged":    `{"x-kubernetes-preserve-unknown-fields":true}`,
		"resource": `{"type":"object","x-kubernetes-preserve-unknown-fields":true,` +
			`"x-kubernetes-embedded-resource":true}`,
		"small": `{"type":"integer","format":"int32","minimum":0,"exclusiveMinimum":true,"maximum":5}`,
		"loose": `{"type":"integer","format":"int32","minimum":0,"maximum":9}`,
		"steps": `{"type":"integer","format":"int64","minimum":1,"allOf":[{"multipleOf":2},{"multipleOf":3}]}`,
		"first": `{"type":"string","default":"first"}`,
		"list":  `{"type":"array","maxItems":3}`,
		"must":  `{"type":"array","minItems":1}`,
		"plain": `{"description":"word is a word.","type":"string","minLength":2,"maxLength":9}`,
	} {
		found := s
		for step := range strings.SplitSeq(path, ".") {
			switch {
			case step != "*":
				found = found.Properties[step]
			case found.Items != nil:
				found = found.Items
			default:
				found = found.AdditionalProperties.Schema
			}
		}
		own := *found
		own.Properties, own.Items, own.AdditionalProperties = nil, nil, nil
		if got, err := json.Marshal(own); err != nil || !sameJSON(t, got, []byte(want)) {
			t.Errorf("%s: got %s, %v\nwant %s", path, got, err, want)
		}
	}
	if !slices.Equal(s.Required, []string{"forced"}) {
		t.Errorf("%v are required", s.Required)
	}
	if p := s.Properties["state"].Properties["reason"]; p.Pattern == "" || p.MinLength == nil {
		t.Error("a type declared as metav1.Condition lacks its markers")
	}
	service := s.Properties["service"].Properties
	if p := service["ports"]; p.ListType != "map" || !slices.Equal(p.ListMapKeys, []string{"port", "protocol"}) {
		t.Errorf("a type declared as a type of Kubernetes has a list of type %q by %v", p.ListType, p.ListMapKeys)
	}
}

type base struct {
	A int `json:"a"`
}

type derived base

// An error names the type that declares the field.
func TestDeclaredError(t *testing.T) {
	err := define[derived](file(`package kubebuilder_test
type base struct {
	A int // +kubebuilder:validation:Minimum=x
}
type derived base
`)).Err()
	const want = ": kubebuilder_test.base.A: a.go:3: "
	if err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), "a.go") != 1 {
		t.Errorf("got %v", err)
	}
}

type old struct {
	Spec struct {
		A int `json:"a"`
	} `json:"spec"`
}

type renamed old

// The markers of a kind are not those of a kind that is declared as it.
func TestDeclaredKind(t *testing.T) {
	spec := schema[renamed](t, file(`// +kubebuilder:validation:Optional
package kubebuilder_test
// +kubebuilder:resource:path=olds
// +kubebuilder:validation:MinProperties=1
type old struct {
	Spec struct {
		A int // +kubebuilder:validation:Minimum=1
	}
}
type renamed old
`))
	if a := spec.Properties["spec"].Properties["a"]; spec.MinProperties == nil || a.Minimum == nil {
		t.Errorf("got %+v, %+v", spec, a)
	}
	if inner := spec.Properties["spec"]; len(spec.Required) > 0 || len(inner.Required) > 0 {
		t.Errorf("the fields %v %v are required in a package of optional ones", spec.Required, inner.Required)
	}
}

type need struct {
	A int `json:"a"`
	B int `json:"b"`
}

// A marker of the package makes its fields optional. A marker of a field does not affect
// others.
func TestOptionalPackage(t *testing.T) {
	s := schema[need](t, file(`// +kubebuilder:validation:Optional
package kubebuilder_test
type need struct {
	A int
	B int // +required
}
`))
	if !slices.Equal(s.Required, []string{"b"}) {
		t.Errorf("required %v", s.Required)
	}
}
