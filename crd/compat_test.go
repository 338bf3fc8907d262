package crd

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func parseSchema(t *testing.T, text string) *Schema {
	t.Helper()
	s := new(Schema)
	if err := json.Unmarshal([]byte(text), s); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return s
}

// oneField returns the schema of an object with one field.
func oneField(t *testing.T, text string) *Schema {
	return &Schema{Type: "object", Properties: map[string]*Schema{"f": parseSchema(t, text)}}
}

// Each kind of change has its reason, or none if it is harmless.
func TestCompareField(t *testing.T) {
	const str, integer = `{"type":"string"}`, `{"type":"integer"}`
	const anything = `{"x-kubernetes-preserve-unknown-fields":true}`
	object := func(inside string) string { return `{"type":"object","properties":{` + inside + `}}` }
	for _, c := range []struct{ was, is, why string }{
		{str, str, ``},
		{str, `{"type":"string","description":"x","title":"y"}`, ``},
		{str, integer, `.f: the type changes from string to integer`},
		{integer, `{"type":"number"}`, ``},
		{`{"type":"number"}`, integer, `the type changes from number to integer`},
		{str, `{"x-kubernetes-int-or-string":true,"anyOf":[{"type":"integer"},{"type":"string"}]}`, ``},
		{`{"x-kubernetes-int-or-string":true}`,
			`{"x-kubernetes-int-or-string":true,"anyOf":[{"type":"string"},{"type":"integer"}]}`, ``},
		{`{"x-kubernetes-int-or-string":true}`,
			`{"x-kubernetes-int-or-string":true,"allOf":[{"anyOf":[{"type":"integer"},{"type":"string"}]}]}`, ``},
		{`{"x-kubernetes-int-or-string":true,"allOf":[{"anyOf":[{"type":"integer"},{"type":"string"}]},{"pattern":"a"}]}`,
			`{"x-kubernetes-int-or-string":true,"pattern":"a"}`, ``},
		{`{"x-kubernetes-int-or-string":true}`, `{"x-kubernetes-int-or-string":true,"pattern":"a"}`, `the pattern changes`},
		{`{"x-kubernetes-int-or-string":true}`, str, `the type changes from int-or-string to string`},
		{str, anything, ``},
		{anything, str, `any value was allowed, now it must be string`},
		{anything, anything, ``},
		{anything, `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`,
			`any value was allowed, now it must be object`},
		{`{"type":"string","nullable":true}`, str, `null is no longer allowed`},
		{`{"type":"string","nullable":true}`, anything, ``},

		{str, `{"type":"string","enum":["a"]}`, `only "a" are allowed now`},
		{`{"type":"string","enum":["a","b"]}`, `{"type":"string","enum":["b"]}`, `"a" is no longer allowed`},
		{`{"type":"string","enum":["a"]}`, `{"type":"string","enum":["b","a"]}`, ``},
		{`{"type":"string","enum":["a"]}`, str, ``},
		{`{"type":"string","enum":["a","bb"]}`, `{"type":"string","pattern":"^a"}`, `"bb" is no longer allowed`},
		{`{"type":"string","enum":["a","bb"]}`, `{"type":"string","pattern":"^[ab]","maxLength":2}`, ``},
		{`{"type":"integer","enum":[1,2]}`, `{"type":"number","maximum":2}`, ``},
		{`{"type":"integer","enum":[1,2]}`, str, `1, 2 is no longer allowed`},

		{integer, `{"type":"integer","minimum":0}`, `the minimum rises from none to 0`},
		{`{"type":"integer","minimum":1}`, `{"type":"integer","minimum":0}`, ``},
		{`{"type":"integer","minimum":1}`, `{"type":"integer","minimum":2}`, `the minimum rises from 1 to 2`},
		{`{"type":"integer","minimum":1}`, `{"type":"integer","minimum":0,"exclusiveMinimum":true}`, ``},
		{`{"type":"number","minimum":1}`, `{"type":"number","minimum":1,"exclusiveMinimum":true}`,
			`the minimum rises from 1 to 1 (exclusive)`},
		{`{"type":"number","minimum":1,"exclusiveMinimum":true}`, `{"type":"number","minimum":1}`, ``},
		{`{"type":"integer","maximum":5}`, `{"type":"integer","maximum":4}`, `the maximum falls from 5 to 4`},
		{`{"type":"integer","maximum":5}`, `{"type":"integer","maximum":6,"exclusiveMaximum":true}`, ``},
		{`{"type":"integer","maximum":5}`, `{"type":"integer","maximum":5,"exclusiveMaximum":true}`,
			`the maximum falls from 5 to 5 (exclusive)`},
		{integer, `{"type":"integer","multipleOf":2}`, `the value must be a multiple of 2 now`},
		{`{"type":"integer","multipleOf":4}`, `{"type":"integer","multipleOf":2}`, ``},
		{`{"type":"integer","multipleOf":2}`, `{"type":"integer","multipleOf":4}`, `the value must be a multiple of 4 now`},
		{`{"type":"integer","format":"int64"}`, `{"type":"integer","format":"int32"}`,
			`the format narrows from "int64" to "int32"`},
		{`{"type":"integer","format":"int32"}`, `{"type":"integer","format":"int64"}`, ``},
		{`{"type":"integer","minimum":0,"maximum":10}`, `{"type":"integer","minimum":0,"maximum":10,"format":"int32"}`, ``},
		{`{"type":"integer","maximum":10}`, `{"type":"integer","maximum":10,"format":"int32"}`, `the format narrows`},
		{`{"type":"integer","format":"int32"}`, `{"type":"integer","minimum":-2147483648,"maximum":2147483647}`, ``},
		{`{"type":"integer","format":"int32"}`, `{"type":"integer","maximum":2147483646}`,
			`the maximum falls from none to 2.147483646e+09`},
		{`{"type":"integer","format":"int32","minimum":0}`,
			`{"type":"integer","format":"int64","minimum":0,"maximum":4294967295}`, ``},
		{`{"type":"number","minimum":-1,"maximum":1}`, `{"type":"number","minimum":-1,"maximum":1,"format":"float"}`, ``},
		{integer, `{"type":"integer","multipleOf":1}`, ``},
		{`{"type":"number"}`, `{"type":"number","multipleOf":1}`, `the value must be a multiple of 1 now`},
		{`{"x-kubernetes-int-or-string":true,"minimum":1}`,
			`{"x-kubernetes-int-or-string":true,"minimum":0,"exclusiveMinimum":true}`, ``},

		{str, `{"type":"string","minLength":0}`, ``},
		{str, `{"type":"string","minLength":1}`, `minLength rises from none to 1`},
		{`{"type":"string","minLength":2}`, `{"type":"string","minLength":1}`, ``},
		{`{"type":"string","maxLength":2}`, `{"type":"string","maxLength":1}`, `maxLength falls from 2 to 1`},
		{str, `{"type":"string","maxLength":9}`, `maxLength falls from none to 9`},
		{str, `{"type":"string","pattern":"a"}`, `the pattern changes from "" to "a"`},
		{`{"type":"string","pattern":"a"}`, str, ``},
		{str, `{"type":"string","format":"date"}`, `the format changes from "" to "date"`},
		{str, `{"type":"string","format":"password"}`, ``},
		{`{"type":"string","format":"date-time"}`, `{"type":"string","format":"datetime"}`, ``},
		{`{"type":"string","format":"date"}`, str, ``},

		{`{"type":"array","items":{"type":"string"}}`, `{"type":"array","items":{"type":"integer"}}`,
			`.f[]: the type changes from string to integer`},
		{`{"type":"array","items":{"type":"string"}}`, `{"type":"array","items":{"type":"string"},"maxItems":3}`,
			`maxItems falls from none to 3`},
		{`{"type":"array","items":{"type":"string"}}`, `{"type":"array","items":{"type":"string"},"minItems":1}`,
			`minItems rises from none to 1`},
		{`{"type":"array","items":{"type":"string"}}`,
			`{"type":"array","items":{"type":"string"},"x-kubernetes-list-type":"set"}`, `the items must be unique now`},
		{`{"type":"array","items":{"type":"string"},"x-kubernetes-list-type":"set"}`,
			`{"type":"array","items":{"type":"string"}}`, ``},
		{`{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["a"],"items":{"type":"object"}}`,
			`{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["a","b"],"items":{"type":"object"}}`,
			``},
		{`{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["a","b"],"items":{"type":"object"}}`,
			`{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["a"],"items":{"type":"object"}}`,
			`the items must be unique by a now`},

		{object(`"a":{"type":"string"}`), object(``), `.f.a: the field is removed, and its stored values would be dropped`},
		{object(``), object(`"a":{"type":"string"}`), ``},
		{object(`"a":{"type":"string"}`), `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`, ``},
		{object(`"a":{"type":"string"}`), `{"type":"object","additionalProperties":{"type":"string"}}`, ``},
		{object(`"a":{"type":"string"}`), `{"type":"object","additionalProperties":{"type":"integer"}}`,
			`.f.a: the type changes`},
		{`{"type":"object","additionalProperties":{"type":"string"}}`, object(`"a":{"type":"string"}`),
			`.f: it was a map, and its entries would be dropped`},
		{`{"type":"object","additionalProperties":{"type":"string"}}`,
			`{"type":"object","additionalProperties":{"type":"string","maxLength":1}}`, `.f[*]: maxLength falls`},
		{`{"type":"object","additionalProperties":{"type":"string"}}`, `{"type":"object","additionalProperties":true}`, ``},
		{`{"type":"object","additionalProperties":{"type":"string"}}`,
			`{"type":"object","additionalProperties":{"type":"string"},"maxProperties":1}`,
			`maxProperties falls from none to 1`},
		{`{"type":"object","additionalProperties":true}`, `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`,
			``},
		{`{"type":"object","x-kubernetes-preserve-unknown-fields":true}`, `{"type":"object","additionalProperties":true}`,
			``},
		{`{"type":"object","x-kubernetes-embedded-resource":true,` +
			`"properties":{"metadata":{"type":"object"},"spec":{"type":"string"}}}`,
			`{"type":"object","x-kubernetes-embedded-resource":true,` +
				`"properties":{"spec":{"type":"string"}},"required":["metadata"]}`, ``},
		{`{"type":"object","required":["a"],"properties":{"a":{"type":"string"}}}`,
			`{"type":"object","minProperties":1,"properties":{"a":{"type":"string"}}}`, ``},
		{`{"type":"object","x-kubernetes-preserve-unknown-fields":true}`, `{"type":"object"}`,
			`.f: fields that the schema does not name were kept, and would be dropped`},
		{`{"type":"object","x-kubernetes-preserve-unknown-fields":true}`,
			`{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"a":{"type":"string"}}}`,
			`.f.a: any value was allowed, now it must be string`},
		{`{"type":"object","x-kubernetes-preserve-unknown-fields":true}`,
			`{"type":"object","x-kubernetes-preserve-unknown-fields":true,"x-kubernetes-embedded-resource":true}`,
			`it must be a whole resource now`},

		{object(`"a":{"type":"string"}`), `{"type":"object","required":["a"],"properties":{"a":{"type":"string"}}}`,
			`.f.a: the field is required now and has no default`},
		{object(`"a":{"type":"string"}`),
			`{"type":"object","required":["a"],"properties":{"a":{"type":"string","default":"x"}}}`, ``},
		{object(``), `{"type":"object","required":["b"],"properties":{"b":{"type":"string"}}}`,
			`.f.b: the field is required now and has no default`},
		{`{"type":"object","required":["a"],"properties":{"a":{"type":"string","default":"x"}}}`,
			`{"type":"object","required":["a"],"properties":{"a":{"type":"string"}}}`,
			`the field is required and its default is removed`},
		{`{"type":"object","maxProperties":2}`,
			`{"type":"object","maxProperties":2,"properties":{"a":{"type":"string","default":"x"}}}`,
			`its new default counts towards maxProperties`},

		{str, `{"type":"string","x-kubernetes-validations":[{"rule":"self != 'a'"}]}`, `the rule self != 'a' is new`},
		{`{"type":"string","x-kubernetes-validations":[{"rule":"self != 'a'"}]}`,
			`{"type":"string","x-kubernetes-validations":[{"rule":"self != 'a'","message":"no"}]}`, ``},
		{str, `{"type":"string","x-kubernetes-validations":[{"rule":"self == oldSelf"}]}`, ``},
		{str,
			`{"type":"string","x-kubernetes-validations":[{"rule":"oldSelf.hasValue() || self == ''","optionalOldSelf":true}]}`,
			`is new`},
		{`{"type":"string","x-kubernetes-validations":[{"rule":"self != 'a'"}]}`, str, ``},
		{`{"type":"object","x-kubernetes-validations":[{"rule":"true"}],"properties":{"a":{"type":"string"}}}`,
			`{"type":"object","x-kubernetes-validations":[{"rule":"true"}],"properties":{"a":{"type":"string","default":"x"}}}`,
			`.f.a: the default changes, and rules may look at it`},
		{`{"type":"object","x-kubernetes-validations":[{"rule":"true"}]}`,
			`{"type":"object","x-kubernetes-validations":[{"rule":"true"}],"properties":{"a":{"type":"string","default":"x"}}}`,
			``},

		{str, `{"type":"string","allOf":[{"minLength":1}]}`, `minLength rises from none to 1`},
		{str, `{"type":"string","allOf":[{"not":{"minLength":1}}]}`, `allOf has a new condition`},
		{`{"type":"string","allOf":[{"maxLength":5},{"maxLength":3}]}`, `{"type":"string","maxLength":3}`, ``},
		{`{"type":"string","maxLength":3}`, `{"type":"string","allOf":[{"maxLength":5},{"maxLength":3}]}`, ``},
		{`{"type":"string","allOf":[{"enum":["a","b"]},{"enum":["b","c"]}]}`, `{"type":"string","enum":["b"]}`, ``},
		{`{"type":"string","enum":["a","b"]}`, `{"type":"string","allOf":[{"enum":["a","b"]},{"enum":["b","a"]}]}`, ``},
		{`{"type":"string","enum":["a","b"]}`, `{"type":"string","allOf":[{"enum":["a","b"]},{"enum":["b"]}]}`,
			`"a" is no longer allowed`},
		{`{"type":"string","pattern":"a","allOf":[{"pattern":"b"}]}`, `{"type":"string","pattern":"b"}`,
			`the pattern changes`},
		{`{"type":"string","allOf":[{"minLength":1},{"maxLength":3}]}`, `{"type":"string","allOf":[{"minLength":1}]}`, ``},
		{str, `{"type":"string","anyOf":[{"minLength":1}]}`, `anyOf changes`},
		{str, `{"type":"string","oneOf":[{"minLength":1}]}`, `oneOf changes`},
		{str, `{"type":"string","not":{"minLength":1}}`, `not changes`},
		{`{"type":"string","not":{"minLength":1}}`, str, ``},
	} {
		cmp := comparer{versions: "v1"}
		cmp.compare(oneField(t, c.was), oneField(t, c.is), "", false)
		switch {
		case c.why == "" && len(cmp.breaks) > 0:
			t.Errorf("%s → %s: %v", c.was, c.is, cmp.breaks)
		case c.why != "" && (len(cmp.breaks) == 0 || !strings.Contains(cmp.breaks[0], c.why)):
			t.Errorf("%s → %s: got %v, want %s", c.was, c.is, cmp.breaks, c.why)
		}
	}
}

// Every server knows apiVersion, kind and metadata of an object, whether its schema names
// them or not.
func TestCompareObject(t *testing.T) {
	const typed = `"apiVersion":{"type":"string","description":"x"},"kind":{"type":"string"},` +
		`"metadata":{"type":"object"},"spec":{"type":"object"}`
	object := func(inside, more string) string { return `{"type":"object","properties":{` + inside + `}` + more + `}` }
	short := `"spec":{"type":"object"},"metadata":{"type":"object","properties":{"name":{"type":"string","maxLength":5}}}`
	for _, c := range []struct{ was, is, why string }{
		{object(typed, ``), object(`"spec":{"type":"object"}`, ``), ``},
		{object(`"spec":{"type":"object"}`, ``), object(typed, `,"required":["metadata"]`), ``},
		{object(typed, ``), object(short, ``), `.metadata.name: maxLength falls from none to 5`},
		{object(short, ``), object(typed, ``), ``},
		{object(typed, ``), object(`"metadata":{"type":"object"}`, ``), `.spec: the field is removed`},
	} {
		breaks := compareSchemas(parseSchema(t, c.was), parseSchema(t, c.is))
		switch {
		case c.why == "" && len(breaks) > 0:
			t.Errorf("%s → %s: %v", c.was, c.is, breaks)
		case c.why != "" && (len(breaks) != 1 || !strings.Contains(breaks[0], c.why)):
			t.Errorf("%s → %s: got %v, want %s", c.was, c.is, breaks, c.why)
		}
	}
}

// versioned returns a definition. The text of a version is its name and the names of its
// string fields.
func versioned(stored []string, versions ...string) *Definition {
	d := &Definition{Spec: Spec{Scope: "Namespaced"}, Status: Status{StoredVersions: stored}}
	for i, v := range versions {
		name, text, _ := strings.Cut(v, " ")
		s := &Schema{Type: "object", Properties: map[string]*Schema{}}
		for f := range strings.FieldsSeq(text) {
			s.Properties[f] = &Schema{Type: "string"}
		}
		d.Spec.Versions = append(d.Spec.Versions, Version{Name: name, Served: true, Storage: i == 0, Schema: Validation{s}})
	}
	return d
}

// Compare compares the right pairs of versions.
func TestCompareVersions(t *testing.T) {
	hidden := func(d *Definition, name string) *Definition { d.Version(name).Served = false; return d }
	webhook := func(d *Definition) *Definition {
		d.Spec.Conversion = &Conversion{Strategy: "Webhook"}
		return d
	}
	cluster := func(d *Definition) *Definition { d.Spec.Scope = "Cluster"; return d }
	for name, c := range map[string]struct {
		live, next *Definition
		want       []string
	}{
		"same": {versioned([]string{"v1"}, "v1 a"), versioned(nil, "v1 a"), nil},
		"field removed": {versioned([]string{"v1"}, "v1 a"), versioned(nil, "v1"),
			[]string{"v1: .a: the field is removed"}},
		"not established": {versioned(nil, "v1 a"), versioned(nil, "v1"), []string{"v1: .a: the field is removed"}},
		"scope": {versioned([]string{"v1"}, "v1"), cluster(versioned(nil, "v1")),
			[]string{"the scope changes from Namespaced to Cluster"}},
		"version removed": {versioned([]string{"v1", "v2"}, "v2", "v1"), versioned(nil, "v2"),
			[]string{"v1: the version is removed"}},
		"version removed that nothing is stored in": {versioned([]string{"v2"}, "v2", "v1"), versioned(nil, "v2"), nil},
		"version stored of old and gone": {versioned([]string{"v0", "v1"}, "v1"), versioned(nil, "v1"),
			[]string{"v0: the version is removed"}},
		"version added": {versioned([]string{"v1"}, "v1 a"), versioned(nil, "v2 a", "v1 a"), nil},
		"version added that loses a field": {versioned([]string{"v1"}, "v1 a"), versioned(nil, "v1 a", "v2"),
			[]string{"v1 as v2: .a: the field is removed"}},
		"the same with a webhook": {versioned([]string{"v1"}, "v1 a"),
			webhook(versioned(nil, "v1 a", "v2")), nil},
		"the same, neither served nor stored": {versioned([]string{"v1"}, "v1 a"),
			hidden(versioned(nil, "v1 a", "v2"), "v2"), nil},
		"what was so before": {versioned([]string{"v1"}, "v1 a", "v2 b"),
			versioned(nil, "v1 a", "v2 b c"), nil},
		"the webhook goes": {webhook(versioned([]string{"v1"}, "v1 a", "v2 b")), versioned(nil, "v1 a", "v2 b"),
			[]string{"v1 as v2: .a: the field is removed"}},
		"the webhook comes": {versioned([]string{"v1"}, "v1 a", "v2 b"), webhook(versioned(nil, "v1 a", "v2 b")), nil},
		"it begins to be served": {hidden(versioned([]string{"v1"}, "v1 a", "v2 b"), "v2"), versioned(nil, "v1 a", "v2 b"),
			[]string{"v1 as v2: .a: the field is removed"}},
		"it begins to be stored": {versioned([]string{"v1"}, "v1 a", "v2 b"), versioned(nil, "v2 b", "v1 a"),
			[]string{"v1 as v2: .a: the field is removed"}},
		"the stored version ends": {versioned([]string{"v1"}, "v1 a", "v2 b"), hidden(versioned(nil, "v1 a", "v2 b"), "v1"),
			[]string{"v1 as v2: .a: the field is removed"}},
		"it ended before": {hidden(versioned([]string{"v1"}, "v1 a", "v2 b"), "v1"),
			hidden(versioned(nil, "v1 a", "v2 b"), "v1"), nil},
		"worse than before": {versioned([]string{"v1"}, "v1 a b", "v2 b"),
			versioned(nil, "v1 a b", "v2 c"), []string{"v1 as v2: .b: the field is removed"}},
		"not served but stored": {versioned([]string{"v1", "v2"}, "v2 a", "v1 a"),
			hidden(versioned(nil, "v2 a", "v1"), "v1"), []string{"v1: .a: the field is removed"}},
		"a version nothing is stored in": {versioned([]string{"v1"}, "v1 a", "v2 a b"),
			versioned(nil, "v1 a", "v2 a"), nil},
	} {
		got := Compare(c.live, c.next)
		if len(got) != len(c.want) || !slices.EqualFunc(got, c.want, strings.HasPrefix) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	err := fmt.Errorf("install: %w", &IncompatibleError{Reasons: []string{"v1: .a: no"}})
	if !strings.Contains(err.Error(), "v1: .a: no") {
		t.Error(err)
	}
}
