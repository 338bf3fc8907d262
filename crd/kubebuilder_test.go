package crd_test

import (
	"embed"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/crd/testdata/kubebuilder"
	"github.com/pintle-go/pintle/kube"
	"sigs.k8s.io/yaml"
)

//go:embed testdata/kubebuilder/types.go
var shiftSource embed.FS

// theirs reads the definition that controller-gen made of the types in testdata.
func theirs(t *testing.T, group string) *crd.Definition {
	t.Helper()
	text, err := os.ReadFile("testdata/kubebuilder/batch.example.com_shifts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var d crd.Definition
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(string(text), "batch.example.com", group)), &d); err != nil {
		t.Fatal(err)
	}
	return &d
}

func shift(t *testing.T, group string) *crd.Definition {
	t.Helper()
	d, err := crd.Of[kubebuilder.Shift](crd.Options{
		Kind:   kube.Kind{GVK: kube.GVK{Group: group, Version: "v1", Kind: "Shift"}},
		Source: shiftSource,
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// The definition that Of makes of types with the markers of controller-gen accepts the
// same values as the definition of controller-gen, and has the same names.
func TestKubebuilder(t *testing.T) {
	ours, theirs := shift(t, "batch.example.com"), theirs(t, "batch.example.com")
	for _, b := range crd.Compare(theirs, ours) {
		t.Errorf("ours instead of theirs: %v", b)
	}
	for _, b := range crd.Compare(ours, theirs) {
		t.Errorf("theirs instead of ours: %v", b)
	}
	c := plainSchemas{t: t}
	o, th := ours.Version("v1"), theirs.Version("v1")
	c.compare("", o.Schema.OpenAPIV3Schema, th.Schema.OpenAPIV3Schema)
	for _, pair := range [][2]any{
		{ours.Spec.Names, theirs.Spec.Names}, {ours.Spec.Scope, theirs.Spec.Scope}, {o.Columns, th.Columns},
		{o.SelectableFields, th.SelectableFields}, {o.Subresources, th.Subresources}, {ours.Labels, theirs.Labels},
		{ours.Annotations["team"] + ours.Annotations["tier"], theirs.Annotations["team"] + theirs.Annotations["tier"]},
		{[]any{o.Deprecated, o.DeprecationWarning, o.Served, o.Storage}, []any{th.Deprecated, th.DeprecationWarning, th.Served, th.Storage}},
	} {
		if got, want := asText(t, pair[0]), asText(t, pair[1]); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
}

func asText(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// plainSchemas compares two schemas word by word, except for words without effect.
type plainSchemas struct{ t *testing.T }

func (c plainSchemas) compare(path string, ours, theirs *crd.Schema) {
	if ours == nil || theirs == nil {
		if ours != theirs {
			c.t.Errorf("%s: got %s, want %s", path, asText(c.t, ours), asText(c.t, theirs))
		}
		return
	}
	a, b := plain(ours), plain(theirs)
	if strings.HasSuffix(path, ".configMapRef") || strings.HasSuffix(path, ".secretRef") {
		b.MapType = "" // controller-gen reads it from an embedded struct; the server's own type is granular
	}
	// The values of allOf are compared elsewhere.
	if got, want := asText(c.t, a), asText(c.t, b); got != want && theirs.AllOf == nil {
		c.t.Errorf("%s: got %s\nwant %s", path, got, want)
	}
	if ours.Items != nil || theirs.Items != nil {
		c.compare(path+"[]", ours.Items, theirs.Items)
	}
	if ours.AdditionalProperties != nil && theirs.AdditionalProperties != nil {
		c.compare(path+"[*]", ours.AdditionalProperties.Schema, theirs.AdditionalProperties.Schema)
	}
	for name, p := range theirs.Properties {
		if path == "" && slices.Contains([]string{"apiVersion", "kind", "metadata"}, name) {
			continue // the server knows these fields
		}
		c.compare(path+"."+name, ours.Properties[name], p)
	}
	for name := range ours.Properties {
		if theirs.Properties[name] == nil {
			c.t.Errorf("%s.%s is not theirs", path, name)
		}
	}
}

// plain returns a schema without its nested schemas and without words that have no
// effect.
func plain(s *crd.Schema) crd.Schema {
	p := *s
	p.Description, p.Items, p.Properties, p.AdditionalProperties = "", nil, nil, nil
	if p.ListType == "atomic" {
		p.ListType = ""
	}
	if p.MapType == "granular" {
		p.MapType = ""
	}
	p.Required = slices.Sorted(slices.Values(p.Required))
	p.ListMapKeys = slices.Sorted(slices.Values(p.ListMapKeys))
	if s.AdditionalProperties != nil {
		p.Type = "map"
	}
	if p.Type == "integer" && p.Format == "int64" {
		p.Format = "" // integers of servers always have 64 bits
	}
	return p
}

// A program can take over a definition that controller-gen made, without force.
func TestInstallOverKubebuilder(t *testing.T) {
	s := start(t)
	before, after := theirs(t, s.group()), shift(t, s.group())
	s.remove(t, before)
	if _, err := kube.For[crd.Definition](s.client).Create(soon(t), before); err != nil {
		t.Fatal(err)
	}
	if err := crd.Install(soon(t), s.client, after); err != nil {
		t.Fatal(err)
	}
}
