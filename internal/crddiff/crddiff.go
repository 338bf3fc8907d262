// Package crddiff tells in which words two definitions differ. Tests compare a definition of
// crd.Of with the one that controller-gen made of the same types.
package crddiff

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/pintle-go/pintle/crd"
)

// A Difference is one between two definitions. In a schema, Path leads to the place and
// What is the word. Outside of it, Path is empty.
type Difference struct {
	Path, What   string
	Ours, Theirs string
}

func (d Difference) String() string {
	return fmt.Sprintf("%s: %s\n  ours   %s\n  theirs %s", d.Path, d.What, d.Ours, d.Theirs)
}

// Compare compares two definitions in one version. Descriptions do not count, nor do words
// without effect.
func Compare(ours, theirs *crd.Definition, version string) []Difference {
	var c comparer
	o, th := ours.Version(version), theirs.Version(version)
	if th == nil {
		return []Difference{{What: "version", Ours: version}}
	}
	c.same("", "names", ours.Spec.Names, theirs.Spec.Names)
	c.same("", "scope", ours.Spec.Scope, theirs.Spec.Scope)
	c.same("", "served", o.Served, th.Served)
	c.same("", "deprecated", o.Deprecated, th.Deprecated)
	c.same("", "deprecation warning", o.DeprecationWarning, th.DeprecationWarning)
	c.same("", "columns", plainColumns(o.Columns), plainColumns(th.Columns))
	c.same("", "selectable fields", o.SelectableFields, th.SelectableFields)
	c.same("", "subresources", plainSubresources(o.Subresources), plainSubresources(th.Subresources))
	c.schemas("", o.Schema.OpenAPIV3Schema, th.Schema.OpenAPIV3Schema)
	return c.found
}

func plainColumns(columns []crd.Column) []crd.Column {
	columns = slices.Clone(columns)
	for i := range columns {
		columns[i].Description = ""
	}
	return columns
}

// plainSubresources returns the subresources; nil has the same effect as none.
func plainSubresources(s *crd.Subresources) crd.Subresources {
	if s == nil {
		return crd.Subresources{}
	}
	return *s
}

type comparer struct{ found []Difference }

func (c *comparer) same(path, what string, ours, theirs any) {
	if o, t := text(ours), text(theirs); o != t {
		c.found = append(c.found, Difference{path, what, o, t})
	}
}

func text(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func (c *comparer) schemas(path string, ours, theirs *crd.Schema) {
	if ours == nil || theirs == nil {
		if ours != theirs {
			c.same(path, "field", ours, theirs)
		}
		return
	}
	a, b := words(ours), words(theirs)
	for _, name := range slices.Sorted(slices.Values(append(keys(a), keys(b)...))) {
		if string(a[name]) != string(b[name]) {
			c.found = append(c.found, Difference{path, name, string(a[name]), string(b[name])})
			delete(a, name)
			delete(b, name)
		}
	}
	if ours.Items != nil || theirs.Items != nil {
		c.schemas(path+"[]", ours.Items, theirs.Items)
	}
	if ours.AdditionalProperties != nil && theirs.AdditionalProperties != nil {
		c.schemas(path+"[*]", ours.AdditionalProperties.Schema, theirs.AdditionalProperties.Schema)
	}
	for name, p := range theirs.Properties {
		if path == "" && slices.Contains([]string{"apiVersion", "kind", "metadata"}, name) {
			continue // the server knows these fields
		}
		c.schemas(path+"."+name, ours.Properties[name], p)
	}
	for name, p := range ours.Properties {
		if theirs.Properties[name] == nil {
			c.schemas(path+"."+name, p, nil)
		}
	}
}

func keys(m map[string]json.RawMessage) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	return names
}

// words returns the words of a schema, except for nested schemas and words without
// effect.
func words(s *crd.Schema) map[string]json.RawMessage {
	p := *s
	p.Description, p.Items, p.Properties, p.AdditionalProperties = "", nil, nil, nil
	if p.ListType == "atomic" {
		p.ListType = ""
	}
	if p.MapType == "granular" {
		p.MapType = ""
	}
	p.Required = slices.Sorted(slices.Values(p.Required))
	p.Required = slices.DeleteFunc(p.Required, func(name string) bool {
		// The server requires metadata, and sets a default before it checks.
		f := s.Properties[name]
		return name == "metadata" || f != nil && f.Default != nil
	})
	p.ListMapKeys = slices.Sorted(slices.Values(p.ListMapKeys))
	p.Rules = slices.SortedFunc(
		slices.Values(p.Rules), func(a, b crd.Rule) int { return strings.Compare(text(a), text(b)) },
	)
	if p.Type == "integer" && p.Format == "int64" {
		p.Format = "" // integers of servers always have 64 bits
	}
	m := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(text(p)), &m); err != nil {
		m["error"] = json.RawMessage(err.Error())
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema == nil {
		m["additionalProperties"] = json.RawMessage(text(s.AdditionalProperties))
	}
	return m
}
