package crd

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/pintle-go/pintle/kube"
)

// The values of markers, in JSON.
func TestParseMarkValue(t *testing.T) {
	for text, want := range map[string]string{
		`{a,b}`: `["a","b"]`, `{1;2}`: `[1,2]`, `{}`: `{}`, `[]`: `[]`, `["a", {"b": null}]`: `["a",{"b":null}]`,
		`{a: b, c:{d: "e:f"}}`:         `{"a":"b","c":{"d":"e:f"}}`,
		`{{type: "A", n:1},{type: B}}`: `[{"n":1,"type":"A"},{"type":"B"}]`,
		`{"a": [true, 1.5]}`:           `{"a":[true,1.5]}`, `word`: `"word"`, "`q\"`": `"q\""`, `12`: `12`,
	} {
		if got, err := parseMarkValue(text); err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", text, got, err, want)
		}
	}
	for _, wrong := range []string{``, `{a`, `{a: }`, `{a: b} c`, `{a, b: c}`, `{a: b, c}`, `"a`, `[a`, `{a b: {}`} {
		if got, err := parseMarkValue(wrong); err == nil {
			t.Errorf("%s: got %s", wrong, got)
		}
	}
}

func FuzzParseMarkValue(f *testing.F) {
	f.Add(`{a: {b, c}, "d": [1]}`)
	f.Fuzz(func(_ *testing.T, text string) {
		_, _ = parseMarkValue(text)
		_, _ = arguments(text)
		_, _ = markList(text)
	})
}

type marked struct {
	kube.Object
	Spec markedSpec `json:"spec"`
}

func (marked) GVK() kube.GVK { return kube.GVK{Group: "example.com", Version: "v1", Kind: "Marked"} }

type markedSpec struct {
	A int      `json:"a,omitempty"`
	B []string `json:"b,omitempty" crd:"maxItems=3"`
}

// A wrong marker is an error with file and line. A marker for other generators is
// ignored.
func TestMarks(t *testing.T) {
	for _, c := range []struct{ kind, a, b, want string }{
		{"", "+kubebuilder:validation:Minimun=1", "",
			"crd.markedSpec.A: types.go:8: +kubebuilder:validation:Minimun=1: the marker is not known: " +
				"did you mean kubebuilder:validation:Minimum?"},
		{"", "+kubebuilder:validation:Minimum=x", "", "types.go:8: +kubebuilder:validation:Minimum=x: it is not a number"},
		{"", "+kubebuilder:validation:Minimum", "", "its value is missing"},
		{"", "+kubebuilder:validation:MaxLength=3", "", "it is for string, int-or-string, this is integer"},
		{"", "+kubebuilder:validation:Type=string", "", "the Go type is encoded as integer"},
		{"", "+kubebuilder:validation:XValidation:message=x", "", "its rule is missing"},
		{"", "+kubebuilder:validation:XValidation:rule=true,color=red", "", "it has no argument color"},
		{"", "+kubebuilder:default=many", "", "is not a valid integer"},
		{"", "", "+kubebuilder:validation:UniqueItems=true",
			"crd.markedSpec.B: types.go:10: +kubebuilder:validation:UniqueItems=true: servers forbid uniqueItems"},
		{"", "", "+listType=bag", "want atomic, set or map"},
		{"", "", "+kubebuilder:validation:MinItems=4", "minItems 4 is above maxItems 3"},
		{"+kubebuilder:resource:scope=Everywhere", "", "",
			"crd.marked: types.go:2: +kubebuilder:resource:scope=Everywhere: want Namespaced or Cluster"},
		{"+kubebuilder:resource:colour=red", "", "", "it has no argument colour"},
		{"+kubebuilder:skipversion", "", "", "the marker excludes this version from definitions"},
		{"+kubebuilder:printcolumn:name=A,type=string", "", "", "its argument JSONPath is missing"},
		{"+kubebuilder:subresource:scale:specpath=.spec.a", "", "", "its argument statuspath is missing"},
		{"", "+kubebuilder:storageversion", "", "it belongs to the type of a kind"},
		{"+kubebuilder:object:root=true", "+protobuf.nullable", "+k8s:deepcopy-gen=false", ""},
		{"+kubebuilder:resource:path=marks,shortName={m,mk},scope=Cluster", "+kubebuilder:validation:ExclusiveMaximum=false",
			"+kubebuilder:default={x,y}", ""},
	} {
		source := "package crd\n// " + c.kind + "\ntype marked struct {\n\tkube.Object\n\tSpec markedSpec\n}\n" +
			"type markedSpec struct {\n\t// " + c.a +
			"\n\tA int\n\t// " + c.b + "\n\tB []string\n}\n"
		d, err := Of[marked](Options{Source: fstest.MapFS{"types.go": {Data: []byte(source)}}})
		switch {
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("got  %v\nwant %s", err, c.want)
		case c.want == "" && err != nil:
			t.Error(err)
		case c.want == "" && strings.Contains(c.kind, "path"):
			spec := d.Version("v1").Schema.OpenAPIV3Schema.Properties["spec"]
			if n := d.Spec.Names; n.Plural != "marks" || !slices.Equal(n.ShortNames, []string{"m", "mk"}) ||
				d.Spec.Scope != kube.ClusterScoped {
				t.Errorf("got %+v, %s", n, d.Spec.Scope)
			}
			if got := string(spec.Properties["b"].Default); got != `["x","y"]` {
				t.Errorf("default %s", got)
			}
		}
	}
}

// A marker of the package makes its fields optional. A marker of a field does not affect
// others.
func TestOptionalPackage(t *testing.T) {
	type need struct {
		A int `json:"a"`
		B int `json:"b"`
	}
	b := builder{sources: sources{marks: map[string][]mark{
		"crd":        {{"doc.go", 1, "kubebuilder:validation:Optional"}},
		"crd.need.B": {{"doc.go", 2, "required"}},
	}}}
	if s := b.root(reflect.TypeFor[need]()); len(b.errs) > 0 || !slices.Equal(s.Required, []string{"b"}) {
		t.Errorf("required %v, %v", s.Required, b.errs)
	}
}
