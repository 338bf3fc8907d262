package crd_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Thing has a field for each tag and for each Go shape.
type Thing struct {
	kube.Object
	Spec   ThingSpec   `json:"spec"`
	Status ThingStatus `json:"status,omitzero"`
}

func (Thing) GVK() kube.GVK { return kube.GVK{Group: "example.com", Version: "v1", Kind: "Thing"} }

type ThingStatus struct {
	Ready      bool               `json:"ready,omitempty"`
	Replicas   int32              `json:"replicas,omitempty"`
	Selector   string             `json:"selector,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty" crd:"column=Ready,columnPath='[?(@.type==\"Ready\")].status',columnType=string"`
}

type Named struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
}

type Port struct {
	Port     int32  `json:"port"`
	Protocol string `json:"protocol,omitempty" crd:"default=TCP,enum=TCP|UDP"`
	Name     string `json:"name,omitempty"`
}

type Window struct {
	_   struct{} `crd:"rule='self.min <= self.max',message='min must not be above max',fieldPath=.min"`
	Min int32    `json:"min"`
	Max int32    `json:"max"`
}

type Inlined struct {
	FromEmbedded string `json:"fromEmbedded,omitempty" crd:"maxLength=3"`
}

type Celsius string // the pattern in its field restricts the text

func (c Celsius) MarshalText() ([]byte, error) { return []byte(c), nil }

type ThingSpec struct {
	Inlined `json:",inline"`

	Required  string           `json:"required"`
	Forced    *int32           `json:"forced,omitempty" crd:"required"`
	Min       int32            `json:"min,omitempty" crd:"min=2,column"`
	Max       int32            `json:"max,omitempty" crd:"max=9,column=Most,priority=1"`
	Open      *float64         `json:"open,omitempty" crd:"exclusiveMin=0,exclusiveMax=1"`
	Even      int64            `json:"even,omitempty" crd:"multipleOf=2"`
	Length    string           `json:"length,omitempty" crd:"minLength=2,maxLength=4"`
	Pattern   string           `json:"pattern,omitempty" crd:"pattern='^a{1,3}$'"`
	Mail      string           `json:"mail,omitempty" crd:"format=email"`
	Enum      string           `json:"enum,omitempty" crd:"enum=red|green"`
	EnumInt   int              `json:"enumInt,omitempty" crd:"enum=1|3"`
	Items     []string         `json:"items,omitempty" crd:"minItems=1,maxItems=2,items.pattern=^[a-z]+$"`
	Set       []string         `json:"set,omitempty" crd:"listType=set"`
	ByName    []Named          `json:"byName,omitempty" crd:"listMapKey=name"`
	Ports     []Port           `json:"ports,omitempty" crd:"listType=map,listMapKey=port|protocol"`
	Default   string           `json:"default,omitempty" crd:"default=blue"`
	DefaultN  *int32           `json:"defaultN,omitempty" crd:"default=7"`
	DefaultL  []string         `json:"defaultL,omitempty" crd:"default='[\"a\",\"b\"]'"`
	DefaultS  *Window          `json:"defaultS,omitempty" crd:"default='{\"min\":1,\"max\":2}'"`
	Window    *Window          `json:"window,omitempty"`
	Fixed     string           `json:"fixed" crd:"immutable,maxLength=20"`
	FixedOpt  string           `json:"fixedOpt,omitempty" crd:"immutable,maxLength=20"`
	FixedNs   string           `json:"namespace,omitempty" crd:"immutable"`
	FixedDash string           `json:"a-b.c__d,omitempty" crd:"immutable"`
	Rule      int32            `json:"rule,omitempty" crd:"rule='self != 13',message='13 is unlucky, ''sorry''',reason=FieldValueForbidden,rule='self != 17',messageExpression='self > 16 ? \"not seventeen\" : \"no\"'"`
	Grow      int32            `json:"grow,omitempty" crd:"rule='oldSelf.hasValue() ? self >= oldSelf.value() : self < 5',message=it only grows,optionalOldSelf"`
	Nullable  *string          `json:"nullable,omitempty" crd:"nullable"`
	Select    string           `json:"select,omitempty" crd:"selectable"`
	SelectB   bool             `json:"selectB,omitempty" crd:"selectable"`
	Count     map[string]int32 `json:"count,omitempty" crd:"minProperties=1,maxProperties=2,values.max=10"`

	Bool     bool                  `json:"bool,omitempty"`
	Int8     int8                  `json:"int8,omitempty"`
	Uint16   uint16                `json:"uint16,omitempty"`
	Int32    int32                 `json:"int32,omitempty"`
	Uint64   uint64                `json:"uint64,omitempty"`
	Float    float64               `json:"float,omitempty"`
	Quoted   int64                 `json:"quoted,omitempty,string"`
	Bytes    []byte                `json:"bytes,omitempty"`
	Pair     [2]int32              `json:"pair,omitzero"`
	Map      map[string]string     `json:"map,omitempty"`
	Nested   map[string][]Named    `json:"nested,omitempty"`
	Any      any                   `json:"any,omitempty"`
	AnyMap   map[string]any        `json:"anyMap,omitempty"`
	RawJSON  json.RawMessage       `json:"rawJSON,omitempty"`
	Raw      runtime.RawExtension  `json:"raw,omitzero"`
	Embedded *runtime.RawExtension `json:"embedded,omitempty" crd:"embeddedResource"`
	IntOrStr *intstr.IntOrString   `json:"intOrStr,omitempty" crd:"default=25%"`
	Quantity *resource.Quantity    `json:"quantity,omitempty"`
	Time     *metav1.Time          `json:"time,omitempty" crd:"column"`
	Micro    *metav1.MicroTime     `json:"micro,omitempty"`
	Duration *metav1.Duration      `json:"duration,omitempty"`
	Text     Celsius               `json:"text,omitempty"`
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	Template *struct {
		metav1.ObjectMeta `json:"metadata,omitempty"`
		Text              string `json:"text,omitempty"`
	} `json:"template,omitempty"`
}

// thingKind is an installed kind. Its handle shows objects as the server stores them.
type thingKind struct {
	*server
	def     *crd.Definition
	objects kube.Resource[unstructured.Unstructured]
	typed   kube.Resource[Thing]
}

// TestThing installs a definition that uses every feature on a real server.
func TestThing(t *testing.T) {
	s := start(t)
	d := of[Thing](t, s.group(), crd.Options{
		Scale:      &crd.Scale{SpecReplicasPath: ".spec.min", LabelSelectorPath: ".status.selector"},
		Columns:    []crd.Column{{Name: "Quantity", Type: "string", JSONPath: ".spec.quantity", Description: "How much."}},
		ShortNames: []string{"th"}, Categories: []string{"pintle"},
	})
	s.install(t, d)
	kind := kube.Kind{GVK: kube.GVK{Group: d.Spec.Group, Version: "v1", Kind: "Thing"}}
	k := thingKind{s, d, kube.For[unstructured.Unstructured](s.client, kind).In(s.namespace),
		kube.For[Thing](s.client, kind).In(s.namespace)}
	t.Run("enforced", k.testEnforced)
	t.Run("defaults and pruning", k.testDefaultsAndPruning)
	t.Run("immutable", k.testImmutable)
	t.Run("columns", k.testColumns)
	t.Run("selectable", k.testSelectable)
	t.Run("subresources", k.testSubresources)
	t.Run("names", k.testNames)
}

func thing(t *testing.T, name, spec string) *unstructured.Unstructured {
	t.Helper()
	var fields map[string]any
	if err := json.Unmarshal([]byte("{"+spec+"}"), &fields); err != nil {
		t.Fatalf("%s: %v", spec, err)
	}
	for k, v := range map[string]any{"required": "x", "forced": 1.0, "fixed": "f"} {
		if _, ok := fields[k]; !ok {
			fields[k] = v
		}
	}
	for k, v := range fields {
		if v == "ABSENT" {
			delete(fields, k)
		}
	}
	u := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name}, "spec": fields}}
	return u
}

// testEnforced tests each field with values that the server accepts and values that it
// refuses, and compares the server's messages.
func (k thingKind) testEnforced(t *testing.T) {
	for i, c := range []struct{ spec, refused string }{
		{``, ``},
		{`"required":"ABSENT"`, `spec.required: Required value`},
		{`"forced":"ABSENT"`, `spec.forced: Required value`},
		{`"min":1`, `spec.min in body should be greater than or equal to 2`},
		{`"min":2`, ``},
		{`"max":10`, `spec.max in body should be less than or equal to 9`},
		{`"max":9`, ``},
		{`"open":0`, `spec.open in body should be greater than 0`},
		{`"open":1`, `spec.open in body should be less than 1`},
		{`"open":0.5`, ``},
		{`"even":3`, `spec.even in body should be a multiple of 2`},
		{`"even":4`, ``},
		{`"length":"a"`, `spec.length in body should be at least 2 chars long`},
		{`"length":"abcde"`, `Too long: may not be more than 4`},
		{`"length":"äöüß"`, ``},
		{`"pattern":"aaaa"`, `should match '^a{1,3}$'`},
		{`"pattern":"aaa"`, ``},
		{`"mail":"nobody"`, `spec.mail in body must be of type email`},
		{`"mail":"a@example.com"`, ``},
		{`"enum":"blue"`, `Unsupported value: "blue": supported values: "red", "green"`},
		{`"enum":"green"`, ``},
		{`"enumInt":2`, `Unsupported value: 2: supported values: "1", "3"`},
		{`"enumInt":3`, ``},
		{`"items":[]`, `spec.items in body should have at least 1 items`},
		{`"items":["a","b","c"]`, `Too many: 3: must have at most 2 items`},
		{`"items":["a","B"]`, `spec.items[1] in body should match '^[a-z]+$'`},
		{`"items":["a","b"]`, ``},
		{`"set":["a","a"]`, `Duplicate value: "a"`},
		{`"set":["a","b"]`, ``},
		{`"byName":[{"name":"a"},{"name":"a"}]`, `Duplicate value: {"name":"a"}`},
		{`"byName":[{"value":"a"}]`, `spec.byName[0].name: Required value`},
		{`"byName":[{"name":"a"},{"name":"b"}]`, ``},
		{`"ports":[{"port":1},{"port":1,"protocol":"TCP"}]`, `Duplicate value`},
		{`"ports":[{"port":1},{"port":1,"protocol":"UDP"}]`, ``},
		{`"ports":[{"port":1,"protocol":"SCTP"}]`, `Unsupported value: "SCTP"`},
		{`"window":{"min":2,"max":1}`, `spec.window.min: Invalid value: min must not be above max`},
		{`"window":{"min":1,"max":1}`, ``},
		{`"rule":13`, `spec.rule: Forbidden: 13 is unlucky, 'sorry'`},
		{`"rule":17`, `spec.rule: Invalid value: 17: not seventeen`},
		{`"rule":18`, ``},
		{`"grow":5`, `spec.grow: Invalid value: 5: it only grows`},
		{`"grow":4`, ``},
		{`"count":{}`, `spec.count in body should have at least 1 properties`},
		{`"count":{"a":1,"b":2,"c":3}`, `Too many: 3: must have at most 2 items`},
		{`"count":{"a":11}`, `spec.count.a in body should be less than or equal to 10`},
		{`"count":{"a":10}`, ``},
		{`"fromEmbedded":"abcd"`, `Too long: may not be more than 3`},
		{`"bool":"true"`, `spec.bool: Invalid value: "string": spec.bool in body must be of type boolean`},
		{`"int8":128`, `should be less than or equal to 127`},
		{`"uint16":-1`, `should be greater than or equal to 0`},
		{`"int32":"1"`, `must be of type integer`},
		{`"int32":1.5`, `must be of type integer`},
		{`"int32":3000000000`, `Checked value must be of type integer with format int32 in spec.int32`},
		{`"uint64":-1`, `should be greater than or equal to 0`},
		{`"float":"1"`, `must be of type number`},
		{`"float":1`, ``},
		{`"quoted":1`, `must be of type string`},
		{`"quoted":"1"`, ``},
		{`"bytes":"%"`, `must be of type byte`},
		{`"bytes":"aGk="`, ``},
		{`"pair":[1]`, `should have at least 2 items`},
		{`"pair":[1,2]`, ``},
		{`"map":{"a":1}`, `spec.map.a in body must be of type string`},
		{`"map":["a"]`, `must be of type object`},
		{`"nested":{"a":[{"name":1}]}`, `spec.nested.a[0].name in body must be of type string`},
		{`"nested":{"a":[{"name":"b"}]}`, ``},
		{`"any":1`, ``}, {`"any":"a"`, ``}, {`"any":[1,"a",{"b":null}]`, ``},
		{`"anyMap":1`, `must be of type object`},
		{`"anyMap":{"a":{"b":[1]}}`, ``},
		{`"rawJSON":[1]`, ``},
		{`"raw":[1]`, `must be of type object`},
		{`"raw":{"a":1}`, ``},
		{`"embedded":{"a":1}`, `spec.embedded.apiVersion: Required value`},
		{`"embedded":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"x":1}`, ``},
		{`"intOrStr":1`, ``}, {`"intOrStr":"50%"`, ``},
		{`"intOrStr":true`, `must be of type integer,string`},
		{`"quantity":"1Gi"`, ``}, {`"quantity":1`, ``}, {`"quantity":"1.5"`, ``},
		{`"quantity":"much"`, `spec.quantity in body should match`},
		{`"time":"2026-01-02T03:04:05Z"`, ``},
		{`"time":"yesterday"`, `must be of type date-time`},
		{`"micro":"2026-01-02T03:04:05.000006Z"`, ``},
		{`"micro":"now"`, `must be of type date-time`},
		{`"duration":"1h"`, ``},
		{`"duration":3600`, `must be of type string`},
		{`"text":"20°"`, ``},
		{`"text":20`, `must be of type string`},
		{`"selector":{"matchExpressions":[{"operator":"In"}]}`, `spec.selector.matchExpressions[0].key: Required value`},
		{`"selector":{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"a","operator":"In","values":["b"]}]}`, ``},
		{`"template":{"metadata":{"labels":{"a":1}}}`, `spec.template.metadata.labels.a in body must be of type string`},
	} {
		_, err := k.objects.Create(soon(t), thing(t, fmt.Sprintf("t-%d", i), c.spec))
		switch {
		case c.refused == "" && err != nil:
			t.Errorf("%s: refused: %v", c.spec, err)
		case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%s:\n got  %v\n want %s", c.spec, err, c.refused)
		}
	}
}

// testDefaultsAndPruning tests the defaults that the server fills in and the fields that
// it drops.
func (k thingKind) testDefaultsAndPruning(t *testing.T) {
	u, err := k.objects.Create(soon(t), thing(t, "a", `
		"unknown":1,"window":{"min":1,"max":2,"unknown":1},"nullable":null,"length":null,"defaultN":null,
		"ports":[{"port":1}],"byName":[{"name":"a","unknown":1}],
		"raw":{"kept":{"x":1}},"any":{"kept":null},"anyMap":{"kept":{"x":1}},
		"template":{"text":"x","metadata":{"name":"n","labels":{"a":"b"},"annotations":{"c":"d"},
			"creationTimestamp":null,"unknown":1}}`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(u.Object["spec"])
	if err != nil {
		t.Fatal(err)
	}
	want := `{"any":{"kept":null},"anyMap":{"kept":{"x":1}},"byName":[{"name":"a"}],` +
		`"default":"blue","defaultL":["a","b"],"defaultN":7,"defaultS":{"max":2,"min":1},` +
		`"fixed":"f","forced":1,"intOrStr":"25%","nullable":null,` +
		`"ports":[{"port":1,"protocol":"TCP"}],"raw":{"kept":{"x":1}},"required":"x",` +
		`"template":{"metadata":{"annotations":{"c":"d"},"labels":{"a":"b"},"name":"n"},"text":"x"},` +
		`"window":{"max":2,"min":1}}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	back, err := k.typed.Get(soon(t), "a")
	if err != nil {
		t.Fatal(err)
	}
	if *back.Spec.DefaultN != 7 || back.Spec.IntOrStr.String() != "25%" || back.Spec.Template.Labels["a"] != "b" {
		t.Errorf("decoded: %+v", back.Spec)
	}
}

func (k thingKind) testImmutable(t *testing.T) {
	if _, err := k.objects.Create(soon(t), thing(t, "i-a", `"fixedOpt":"x","a-b.c__d":"y","grow":1`)); err != nil {
		t.Fatal(err)
	}
	if _, err := k.objects.Create(soon(t), thing(t, "i-b", ``)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, patch, refused string }{
		{"a", `{"fixed":"g"}`, `spec.fixed: Invalid value: "g": fixed is immutable`},
		{"a", `{"fixedOpt":"y"}`, `spec.fixedOpt: Invalid value: "y": fixedOpt is immutable`},
		{"a", `{"fixedOpt":null}`,
			`spec.fixedOpt: Invalid value: fixedOpt is immutable: it can be neither added nor removed`},
		{"a", `{"a-b.c__d":null}`, `a-b.c__d is immutable`},
		{"a", `{"required":"other"}`, ``},
		{"a", `{"grow":7}`, ``},
		{"a", `{"grow":6}`, `it only grows`},
		{"b", `{"fixedOpt":"x"}`, `fixedOpt is immutable`},
		{"b", `{"namespace":"x"}`, `namespace is immutable`},
	} {
		_, err := k.objects.Patch(soon(t), "i-"+c.name, types.MergePatchType, []byte(`{"spec":`+c.patch+`}`))
		switch {
		case c.refused == "" && err != nil:
			t.Errorf("%s: refused: %v", c.patch, err)
		case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%s:\n got  %v\n want %s", c.patch, err, c.refused)
		}
	}
}

// table is the server's answer to kubectl get.
type table struct {
	ColumnDefinitions []struct {
		Name, Type, Format, Description string
		Priority                        int
	}
	Rows []struct {
		Cells  []any
		Object struct{ Metadata struct{ Name string } }
	}
}

func (k thingKind) testColumns(t *testing.T) {
	u := thing(t, "c", `"min":3,"max":4,"time":"2026-01-02T03:04:05Z","quantity":"2Gi"`)
	if _, err := k.objects.Create(soon(t), u); err != nil {
		t.Fatal(err)
	}
	status := `{"status":{"conditions":[{"type":"Ready","status":"True","reason":"R","message":"",` +
		`"lastTransitionTime":"2026-01-02T03:04:05Z"}]}}`
	if _, err := kube.Sub[unstructured.Unstructured](k.objects, "status").Patch(soon(t), "c", types.MergePatchType,
		[]byte(status)); err != nil {
		t.Fatal(err)
	}
	var got table
	k.get(t, "/apis/"+k.def.Spec.Group+"/v1/namespaces/"+k.namespace+"/things?fieldSelector=metadata.name%3Dc",
		"application/json;as=Table;v=v1;g=meta.k8s.io", &got)
	var heads []string
	for _, c := range got.ColumnDefinitions {
		heads = append(heads, fmt.Sprintf("%s %s %d", c.Name, c.Type, c.Priority))
	}
	want := "Name string 0, Min integer 0, Most integer 1, Time date 0, Ready string 0, Quantity string 0, Age date 0"
	if strings.Join(heads, ", ") != want {
		t.Errorf("columns\n got  %s\n want %s", strings.Join(heads, ", "), want)
	}
	if len(got.Rows) != 1 {
		t.Fatalf("rows: %v", got.Rows)
	}
	if cells := fmt.Sprint(got.Rows[0].Cells[:6]); !strings.HasPrefix(cells, "[c 3 4 ") ||
		!strings.HasSuffix(cells, "d True 2Gi]") {
		t.Errorf("cells: %s", cells)
	}
}

func (k thingKind) testSelectable(t *testing.T) {
	for name, spec := range map[string]string{"s-1": `"select":"one"`, "s-2": `"select":"two","selectB":true`,
		"s-3": `"select":"two"`} {
		if _, err := k.objects.Create(soon(t), thing(t, name, spec)); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	for u, err := range k.objects.Fielded("spec.select=two,spec.selectB=true").List(soon(t)) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, u.GetName())
	}
	if len(names) != 1 || names[0] != "s-2" {
		t.Errorf("selected: %q", names)
	}
}

func (k thingKind) testSubresources(t *testing.T) {
	u := thing(t, "r", `"min":3`)
	u.Object["status"] = map[string]any{"replicas": int64(1)}
	u, err := k.objects.Create(soon(t), u)
	if err != nil {
		t.Fatal(err)
	}
	if u.Object["status"] != nil {
		t.Errorf("status was written with the rest: %v", u.Object["status"])
	}
	patch := `{"spec":{"min":9},"status":{"replicas":2,"selector":"a=b"}}`
	if u, err = kube.Sub[unstructured.Unstructured](k.objects, "status").Patch(soon(t), "r", types.MergePatchType,
		[]byte(patch)); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(u.Object["spec"].(map[string]any)["min"],
		u.Object["status"]); got != "3 map[replicas:2 selector:a=b]" {
		t.Errorf("after a write of the status: %s", got)
	}
	var scale struct {
		Spec   struct{ Replicas int }
		Status struct {
			Replicas int
			Selector string
		}
	}
	path := "/apis/" + k.def.Spec.Group + "/v1/namespaces/" + k.namespace + "/things/r/scale"
	k.get(t, path, "application/json", &scale)
	if scale.Spec.Replicas != 3 || scale.Status.Replicas != 2 || scale.Status.Selector != "a=b" {
		t.Errorf("scale: %+v", scale)
	}
	scaled := func(n int) error {
		patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, n)
		_, err := kube.Sub[unstructured.Unstructured](k.objects, "scale").Patch(soon(t), "r", types.MergePatchType,
			[]byte(patch))
		return err
	}
	if err := scaled(8); err != nil {
		t.Fatal(err)
	}
	if back, err := k.typed.Get(soon(t), "r"); err != nil || back.Spec.Min != 8 {
		t.Errorf("scaled: %v %v", back, err)
	}
	if err := scaled(1); err == nil || !strings.Contains(err.Error(), "greater than or equal to 2") {
		t.Errorf("scaled below the minimum: %v", err)
	}
}

func (k thingKind) testNames(t *testing.T) {
	var list metav1.APIResourceList
	k.get(t, "/apis/"+k.def.Spec.Group+"/v1", "application/json", &list)
	for _, r := range list.APIResources {
		if r.Name == "things" {
			if got := fmt.Sprint([]any{r.Kind, r.SingularName, r.ShortNames, r.Categories,
				r.Namespaced}); got != "[Thing thing [th] [pintle] true]" {
				t.Errorf("discovery: %s", got)
			}
			return
		}
	}
	t.Errorf("discovery lacks things: %+v", list)
}
