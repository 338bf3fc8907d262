package kubebuilder_test

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/crd/kubebuilder"
	"github.com/pintle-go/pintle/kube"
)

// A marker has the meaning of a tag.
func TestTags(t *testing.T) {
	for _, c := range []struct{ marker, want string }{
		{"kubebuilder:validation:Minimum=1", "min=1"},
		{"kubebuilder:validation:items:items:Pattern=`^a{1,2}'$`", "items.items.pattern='^a{1,2}''$'"},
		{"kubebuilder:validation:ExclusiveMaximum=true", "exclusiveMax"},
		{"kubebuilder:validation:ExclusiveMaximum=false", ""},
		{`kubebuilder:validation:Enum=a;"b c"`, "enum=a|b c"},
		{`kubebuilder:validation:Enum="";a`, "enum=|a"},
		{`kubebuilder:validation:Enum="a|b";c`, `enum='["a|b","c"]'`},
		{`kubebuilder:validation:XValidation:rule="self == 'a, b'",message="no",optionalOldSelf=true`,
			`rule='self == ''a, b''',message=no,optionalOldSelf`},
		{"kubebuilder:validation:AtLeastOneOf=a;b",
			"rule=has(self.a)||has(self.b),message=at least one of the fields in [a b] must be set"},
		{"kubebuilder:default:={a: 1}", `default={"a":1}`},
		{"k8s:required # always", "required,notEmpty"},
		{"structType=atomic", "mapType=atomic"},
		{"kubebuilder:rbac:groups=apps", ""},
		{"something", ""}, {"patchMergeKey=type", ""}, {"unionDiscriminator", ""},
		{"gateway:experimental:validation:Enum=a", ""},
		{" optional fields have a plus sign", ""},
		{`listMapKey="type"`, "listMapKey=type"},
	} {
		for got, err := range kubebuilder.Tags([]string{c.marker}, nil) {
			if err != nil || got != c.want {
				t.Errorf("+%s: got %s, %v, want %s", c.marker, got, err, c.want)
			}
		}
	}
}

// A marker whose name or value is nearly right is refused, and not lost.
func TestNearlyRight(t *testing.T) {
	for _, marker := range []string{
		"optional # for now", "optional, see below", "nullable (sometimes)", "Optional", "listTyp=map", "dfault=1",
		"kubebuidler:validation:Minimum=1", "Kubebuilder:validation:Minimum=1", "kubebuilder/validation:Minimum=1",
		" kubebuilder:validation:Minimum=1", "kubebuilder: validation:Minimum=1", "kubebuilder:",
		"kubebuilder:validation:Enum=a,b", "kubebuilder:validation:Enum=a;;b", "kubebuilder:validation:Enum=[a;b]",
		"kubebuilder:validation:Enum=a;b}", "kubebuilder:validation:AtMostOneOf=;", "kubebuilder:default={a: 1, a: 2}",
	} {
		for got, err := range kubebuilder.Tags([]string{marker}, nil) {
			if err == nil {
				t.Errorf("+%s: got %q", marker, got)
			}
		}
	}
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
			"kubebuilder_test.markedSpec.A: types.go:8: +kubebuilder:validation:Minimun=1: the marker is not known: " +
				"did you mean kubebuilder:validation:Minimum?"},
		{"", "+kubebuilder:validation:Minimum=x", "",
			"types.go:8: +kubebuilder:validation:Minimum=x: it is not a number"},
		{"", "+kubebuilder:validation:Minimum", "", "its value is missing"},
		{"", "+kubebuilder:validation:MaxLength=3", "", "it is for string, int-or-string, this is integer"},
		{"", "+kubebuilder:validation:Type=string", "", "the Go type is encoded as integer"},
		{"", "+kubebuilder:validation:XValidation:message=x", "", "its argument rule is missing"},
		{"", "+kubebuilder:validation:XValidation:rule=true,color=red", "", "it has no argument color"},
		{"", "+kubebuilder:default=many", "", "is not a valid integer"},
		{"", "", "+kubebuilder:validation:UniqueItems=true",
			"kubebuilder_test.markedSpec.B: types.go:10: +kubebuilder:validation:UniqueItems=true: servers forbid uniqueItems"},
		{"", "", "+listType=bag", "want atomic, set or map"},
		{"", "", "+kubebuilder:validation:MinItems=4", "minItems 4 is above maxItems 3"},
		{"+kubebuilder:resource:scope=Everywhere", "", "",
			"kubebuilder_test.marked: types.go:2: +kubebuilder:resource:scope=Everywhere: want Namespaced or Cluster"},
		{"+kubebuilder:resource:colour=red", "", "", "it has no argument colour"},
		{"+kubebuilder:skipversion", "", "", "the marker excludes this version from definitions"},
		{"+kubebuilder:printcolumn:name=A,type=string", "", "", "its argument JSONPath is missing"},
		{"+kubebuilder:subresource:scale:specpath=.spec.a", "", "", "its argument statuspath is missing"},
		{"", "+kubebuilder:storageversion", "", "it belongs to the type of a kind"},
		{"", "+kubebuilder:validation:XValidation:rule=a,rule=b", "",
			"types.go:8: +kubebuilder:validation:XValidation:rule=a,rule=b: rule is given twice"},
		{"", `+kubebuilder:validation:XValidation:rule="self > 1"x`, "",
			"the closing quote is missing, or not at the end"},
		{"+kubebuilder:printcolumn:name=A,type=string,JSONPath=.spec.a,name=B", "", "", "name is given twice"},
		{"+kubebuilder:resource:path=as\n// +kubebuilder:resource:path=bs", "", "",
			"types.go:3: +kubebuilder:resource:path=bs: path is given twice"},
		{"+kubebuilder:metadata:labels=a", "", "", `"a" is not name=value`},
		{"+kubebuilder:resource=as", "", "", "it has arguments and no value of its own"},
		{`+kubebuilder:deprecatedversion="use v2"`, "", "", "it has arguments and no value of its own"},
		{"+kubebuilder:unservedversion=false", "", "", "it has arguments and no value of its own"},
		{"+kubebuilder:printcolumn:name=A,type=string,JSONPath=.spec.c", "", "",
			"types.go:2: +kubebuilder:printcolumn:name=A,type=string,JSONPath=.spec.c: column A: JSONPath .spec.c"},
		{"+kubebuilder:printcolumn:name=A,type=text,JSONPath=.spec.a", "", "",
			`types.go:2: +kubebuilder:printcolumn:name=A,type=text,JSONPath=.spec.a: column A: type "text" is not one of`},
		{"+kubebuilder:subresource:scale:specpath=.spec.c,statuspath=.status.c", "", "",
			"types.go:2: +kubebuilder:subresource:scale:specpath=.spec.c,statuspath=.status.c: JSONPath .spec.c"},
		{"+kubebuilder:selectablefield:JSONPath=.spec.c", "", "",
			"types.go:2: +kubebuilder:selectablefield:JSONPath=.spec.c: JSONPath .spec.c"},
		{"+kubebuilder:resource:path=A_s", "", "", `types.go:2: +kubebuilder:resource:path=A_s: plural "A_s"`},
		{"+kubebuilder:validation:Optional", "", "",
			"types.go:2: +kubebuilder:validation:Optional: it is for fields, not for types"},
		{"", "+kubebuilder:validation:Minimum=5\n\t// +kubebuilder:validation:Minimum=1", "",
			"types.go:9: +kubebuilder:validation:Minimum=1: it is given twice: types.go:8: +kubebuilder:validation:Minimum=5"},
		{"", "", "+listType=set\n\t// +k8s:listType=atomic",
			"types.go:11: +k8s:listType=atomic: it is given twice: types.go:10: +listType=set"},
		{"", "", "+listType=set\n\t// +k8s:listType=set", ""},
		{"", "+kubebuilder:validation:Minimum=9007199254740993", "", "servers would read it as 9007199254740992"},
		{"", "+kubebuilder:validation:ExclusiveMinimum=true", "",
			"types.go:8: +kubebuilder:validation:ExclusiveMinimum=true: there is no limit"},
		{"", "+kubebuilder:validation:ExclusiveMinimum=1", "", "it cannot be 1: leave it out"},
		{"", "+nullable=banana", "", "types.go:8: +nullable=banana: it cannot be banana: leave it out"},
		{"", "+optional=no", "", "it cannot be no: leave it out"},
		{"", "+required=False", "", "it cannot be False: leave it out"},
		{"", "+kubebuilder:validation:Schemaless=no", "", "it cannot be no: leave it out"},
		{"", "+kubebuilder:pruning:PreserveUnknownFields=no", "", "it cannot be no: leave it out"},
		{"", "+k8s:immutable=no", "", "it cannot be no: leave it out"},
		{"", "+optional\n\t// +required=False", "", "it cannot be False: leave it out"},
		{"", "+nullable=true", "+optional=true", ""},
		{"+kubebuilder:object:root=true", "+protobuf.nullable", "+k8s:deepcopy-gen=false", ""},
		{"+kubebuilder:resource:path=marks,shortName={m,mk},scope=Cluster", "+kubebuilder:validation:ExclusiveMaximum=false",
			"+kubebuilder:default={x,y}", ""},
	} {
		source := "package kubebuilder_test\n// " + c.kind + "\ntype marked struct {\n\tkube.Object\n\tSpec markedSpec\n}\n" +
			"type markedSpec struct {\n\t// " + c.a +
			"\n\tA int\n\t// " + c.b + "\n\tB []string\n}\n"
		d := crd.Of[marked](crd.Options{
			Source: fstest.MapFS{"types.go": {Data: []byte(source)}}, Markers: kubebuilder.Tags,
		})
		err := d.Err()
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
