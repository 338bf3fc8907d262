package crd

import (
	"embed"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

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
	// +default="second"
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

func declaredSchema(t *testing.T, typ reflect.Type) *Schema {
	t.Helper()
	from, err := readSources(declaredSource)
	if err != nil {
		t.Fatal(err)
	}
	b := builder{sources: from}
	s := b.root(typ)
	for _, err := range b.errs {
		t.Error(err)
	}
	return s
}

// A type has the markers of the type that it is declared as, however the source declares
// it.
func TestDeclaredTypes(t *testing.T) {
	s := declaredSchema(t, reflect.TypeFor[declaredTypes]())
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
				found = found.values()
			}
		}
		own := *found
		own.Properties, own.Items, own.AdditionalProperties = nil, nil, nil
		if got, err := json.Marshal(own); err != nil || !sameJSON(got, []byte(want)) {
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

// An error names the type that declares the field.
func TestDeclaredError(t *testing.T) {
	type base struct {
		A int `json:"a"`
	}
	type derived base
	b := builder{sources: sources{
		types: map[string]declaration{"crd.base": {}, "crd.derived": {name: "base", packages: []string{"crd"}}},
		marks: map[string][]mark{"crd.base.A": {{"a.go", 3, "kubebuilder:validation:Minimum=x"}}},
	}}
	b.root(reflect.TypeFor[derived]())
	if len(b.errs) != 1 || !strings.HasPrefix(b.errs[0].Error(), "crd.base.A: a.go:3: ") {
		t.Errorf("got %v", b.errs)
	}
}

// The markers of a kind are not those of a kind that is declared as it.
func TestDeclaredKind(t *testing.T) {
	type old struct {
		Spec struct {
			A int `json:"a"`
		} `json:"spec"`
	}
	type renamed old
	b := builder{sources: sources{
		types: map[string]declaration{"crd.old": {}, "crd.renamed": {name: "old", packages: []string{"crd"}}},
		marks: map[string][]mark{
			"crd.old": {{"a.go", 1, "kubebuilder:resource:path=olds"},
				{"a.go", 2, "kubebuilder:validation:MinProperties=1"}},
			"crd":            {{"a.go", 1, "kubebuilder:validation:Optional"}},
			"crd.old.Spec.A": {{"a.go", 3, "kubebuilder:validation:Minimum=1"}},
		},
	}}
	s := b.root(reflect.TypeFor[struct {
		Spec renamed `json:"spec"`
	}]())
	spec := s.Properties["spec"]
	if a := spec.Properties["spec"].Properties["a"]; len(b.errs) > 0 || spec.MinProperties == nil || a.Minimum == nil {
		t.Errorf("got %+v, %+v, %v", spec, a, b.errs)
	}
	if inner := spec.Properties["spec"]; len(spec.Required) > 0 || len(inner.Required) > 0 {
		t.Errorf("the fields %v %v are required in a package of optional ones", spec.Required, inner.Required)
	}
}

// The source tells which type a name stands for.
func TestDeclarations(t *testing.T) {
	found, err := readSources(fstest.MapFS{"a.go": {Data: []byte(`package a
import "example.com/one"
import ( two "example.com/other/v2"; . "example.com/dot"; _ "embed" )
import (
	"example.com/three/v3"
	api "example.com/api/v1"
)
type A B
type B = *one.C
type D[T any, U interface{ ~[]T }] map[string][]two.E
type F [N]three.G
type N []O
type H [2]struct{ I api.J }
type K, broken
type L api.M
`)}})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]declaration{
		"a.A": {name: "B", packages: []string{"a"}},
		"a.B": {name: "C", packages: []string{"one"}, path: "example.com/one", pointer: true, alias: true},
		"a.D": {name: "E", packages: []string{"v2", "other"}, path: "example.com/other/v2",
			steps: []string{inValues, inItems}},
		"a.F":   {name: "G", packages: []string{"three"}, path: "example.com/three/v3", steps: []string{inItems}},
		"a.H":   {},
		"a.N":   {name: "O", packages: []string{"a"}, steps: []string{inItems}},
		"a.H.I": {name: "J", packages: []string{"v1", "api"}, path: "example.com/api/v1"},
		"a.L":   {name: "M", packages: []string{"v1", "api"}, path: "example.com/api/v1"},
	} {
		want.dir = "."
		if got, ok := found.types[name]; !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
}
