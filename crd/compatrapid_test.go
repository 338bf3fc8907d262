package crd

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Schemas are drawn from few values, so that two of them often share some.
var (
	drawName    = rapid.SampledFrom([]string{"a", "b", "c"})
	drawText    = rapid.SampledFrom([]string{"", "a", "b", "ab", "abc", "äb", "7"})
	drawPattern = rapid.SampledFrom([]string{"^a", "^[ab]*$", "b$"})
)

func pointer[T any](v T) *T { return &v }

func maybe(t *rapid.T, label string) bool { return rapid.IntRange(0, 3).Draw(t, label) == 0 }

func drawSchema(t *rapid.T, depth int) *Schema {
	s := &Schema{}
	kinds := []string{"string", "integer", "number", "boolean", "any", "int-or-string"}
	if depth > 0 {
		kinds = append(kinds, "array", "object", "object", "object", "map", "open")
	}
	switch kind := rapid.SampledFrom(kinds).Draw(t, "kind"); kind {
	case "any":
		s.PreserveUnknownFields = true
		return s
	case "int-or-string":
		s = intOrString()
	case "map":
		s.Type = "object"
		s.AdditionalProperties = &SchemaOrBool{Allows: true, Schema: drawSchema(t, depth-1)}
	case "array":
		s.Type, s.Items = kind, drawSchema(t, depth-1)
	case "object", "open":
		s.Type, s.PreserveUnknownFields = "object", kind == "open"
		s.Properties = map[string]*Schema{}
		for range rapid.IntRange(0, 3).Draw(t, "properties") {
			s.Properties[drawName.Draw(t, "name")] = drawSchema(t, depth-1)
		}
	default:
		s.Type = kind
	}
	for range 2 {
		constrain(t, s)
	}
	return s
}

// constrain changes a constraint of a schema, but not its type.
func constrain(t *rapid.T, s *Schema) {
	n := func(label string) *int64 { return pointer(rapid.Int64Range(0, 3).Draw(t, label)) }
	f := func(label string) *float64 { return pointer(float64(rapid.IntRange(-4, 6).Draw(t, label)) / 2) }
	if maybe(t, "nullable") {
		s.Nullable = !s.Nullable
	}
	if maybe(t, "junctor") {
		part := &Schema{MinLength: n("part")}
		switch rapid.IntRange(0, 5).Draw(t, "of") {
		case 0:
			part = &Schema{Minimum: f("part minimum"), ExclusiveMinimum: rapid.Bool().Draw(t, "open")}
		case 1:
			part = &Schema{Maximum: f("part maximum"), MaxLength: n("part longest"),
				Pattern: drawPattern.Draw(t, "part pattern")}
		case 2:
			part = &Schema{Enum: []json.RawMessage{json.RawMessage(`"a"`), json.RawMessage(`1`)}}
		}
		switch rapid.IntRange(0, 3).Draw(t, "which") {
		case 0:
			s.AllOf = append(s.AllOf, part)
		case 1:
			s.Not = part
		case 2:
			s.OneOf = []*Schema{part, {MaxLength: pointer(int64(0))}}
		case 3:
			s.AllOf, s.Not, s.OneOf = nil, nil, nil
		}
	}
	switch s.typeText() {
	case "string":
		switch rapid.IntRange(0, 5).Draw(t, "what") {
		case 0:
			s.MinLength = n("minLength")
		case 1:
			s.MaxLength = n("maxLength")
		case 2:
			s.Pattern = drawPattern.Draw(t, "pattern")
		case 3:
			for _, v := range rapid.SliceOfNDistinct(drawText, 0, 3, rapid.ID[string]).Draw(t, "enum") {
				s.Enum = append(s.Enum, json.RawMessage(fmt.Sprintf("%q", v)))
			}
		case 4:
			s.MinLength, s.MaxLength, s.Pattern, s.Enum = nil, nil, "", nil
		}
	case "integer", "number":
		switch rapid.IntRange(0, 6).Draw(t, "what") {
		case 0:
			s.Minimum, s.ExclusiveMinimum = f("minimum"), rapid.Bool().Draw(t, "exclusive")
		case 1:
			s.Maximum, s.ExclusiveMaximum = f("maximum"), rapid.Bool().Draw(t, "exclusive")
		case 2:
			s.MultipleOf = pointer(float64(rapid.IntRange(1, 4).Draw(t, "multiple")) / 2)
		case 3:
			for _, v := range rapid.SliceOfNDistinct(rapid.IntRange(-2, 3), 0, 3, rapid.ID[int]).Draw(t, "enum") {
				s.Enum = append(s.Enum, json.RawMessage(fmt.Sprint(v)))
			}
		case 4:
			s.Minimum, s.Maximum, s.MultipleOf, s.Enum = nil, nil, nil, nil
		case 5:
			s.Format = map[string]string{"integer": "int32", "number": "float"}[s.Type]
			if rapid.Bool().Draw(t, "without format") {
				s.Format = ""
			}
		}
	case "array":
		switch rapid.IntRange(0, 3).Draw(t, "what") {
		case 0:
			s.MinItems = n("minItems")
		case 1:
			s.MaxItems = n("maxItems")
		case 2:
			s.ListType = rapid.SampledFrom([]string{"", "atomic", "set"}).Draw(t, "listType")
		}
	case "object", "map":
		switch rapid.IntRange(0, 6).Draw(t, "what") {
		case 0:
			s.MinProperties = n("minProperties")
		case 1:
			s.MaxProperties = n("maxProperties")
		case 2, 3:
			s.Required = nil
			for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
				if rapid.Bool().Draw(t, "required "+name) {
					s.Required = append(s.Required, name)
				}
			}
		case 4, 5:
			for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
				p := s.Properties[name]
				if p.Default = nil; !rapid.Bool().Draw(t, "default "+name) {
					continue
				}
				v := drawValue(t, p)
				if raw, err := json.Marshal(v); err == nil && v != nil && fits(p, raw) == nil {
					p.Default = raw
				}
			}
		}
	}
}

// mutate returns a schema that differs from s in one place.
func mutate(t *rapid.T, s *Schema) *Schema {
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	c := new(Schema)
	if err := json.Unmarshal(raw, c); err != nil {
		t.Fatal(err)
	}
	all := slices.Collect(c.walk())
	target := all[0]
	if len(all) > 1 {
		// A map's order differs from run to run, so the fields are sorted.
		slices.SortStableFunc(all, func(a, b *Schema) int {
			ra, _ := json.Marshal(a)
			rb, _ := json.Marshal(b)
			return slices.Compare(ra, rb)
		})
		target = all[rapid.IntRange(0, len(all)-1).Draw(t, "where")]
	}
	switch rapid.IntRange(0, 6).Draw(t, "mutation") {
	case 0:
		def := target.Default
		*target = *drawSchema(t, 1)
		target.Default = def
	case 1:
		if target.Type == "object" && target.AdditionalProperties == nil {
			if target.Properties == nil {
				target.Properties = map[string]*Schema{}
			}
			target.Properties[drawName.Draw(t, "added")] = drawSchema(t, 1)
		}
	case 2:
		if len(target.Properties) > 0 {
			name := rapid.SampledFrom(slices.Sorted(maps.Keys(target.Properties))).Draw(t, "removed")
			delete(target.Properties, name)
		}
	case 3:
		if target.Type == "integer" {
			target.Type = "number"
		}
	default:
		constrain(t, target)
	}
	// Defaults must fit the schema, or the server refuses the definition.
	for x := range c.walk() {
		if x.Default != nil && fits(x, x.Default) != nil {
			x.Default = nil
		}
	}
	return c
}

// drawValue draws a value that probably fits a schema.
func drawValue(t *rapid.T, s *Schema) any {
	if len(s.Enum) > 0 && !maybe(t, "not of enum") {
		v, _ := decodeJSON(rapid.SampledFrom(s.Enum).Draw(t, "of enum"))
		return v
	}
	if s.Nullable && maybe(t, "null") {
		return nil
	}
	kind := s.typeText()
	switch kind {
	case "int-or-string":
		kind = rapid.SampledFrom([]string{"integer", "string"}).Draw(t, "kind")
	case anyText:
		kind = rapid.SampledFrom([]string{"integer", "string", "boolean", "number", "free"}).Draw(t, "kind")
	}
	switch kind {
	case "string":
		return drawText.Draw(t, "text")
	case "integer":
		if maybe(t, "large") {
			return json.Number(fmt.Sprint(rapid.Int64Range(-1<<33, 1<<33).Draw(t, "integer")))
		}
		return json.Number(fmt.Sprint(rapid.IntRange(-3, 4).Draw(t, "integer")))
	case "number":
		return json.Number(fmt.Sprint(float64(rapid.IntRange(-6, 8).Draw(t, "number")) / 2))
	case "boolean":
		return rapid.Bool().Draw(t, "bool")
	case "free":
		return map[string]any{drawName.Draw(t, "key"): []any{json.Number("1"), nil, "x"}}
	case "array":
		list := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "items") {
			list = append(list, drawValue(t, s.Items))
		}
		return list
	}
	object := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if slices.Contains(s.Required, name) && s.Properties[name].Default == nil || rapid.Bool().Draw(t, "there") {
			object[name] = drawValue(t, s.Properties[name])
		}
	}
	others := othersOf(s)
	for others != nil && maybe(t, "other") {
		name := drawName.Draw(t, "key")
		if s.Properties[name] == nil {
			object[name] = drawValue(t, others)
		}
	}
	return object
}

// withDefaults returns a copy of a value with the defaults that the server fills in.
func withDefaults(v any, s *Schema) any {
	switch v := v.(type) {
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = withDefaults(v[i], orAny(s.Items))
		}
		return list
	case map[string]any:
		object := map[string]any{}
		for name, value := range v {
			below := s.Properties[name]
			if below == nil {
				below = orAny(othersOf(s))
			}
			object[name] = withDefaults(value, below)
		}
		for name, p := range s.Properties {
			value, there := v[name]
			if p.Default != nil && (!there || value == nil && !p.Nullable) {
				value, _ := decodeJSON(p.Default)
				object[name] = withDefaults(value, p)
			}
		}
		return object
	}
	return v
}

// fitting draws a value that the server would accept under a schema. The value is as
// stored: with or without defaults.
func fitting(t *rapid.T, s *Schema) (any, bool) {
	v := drawValue(t, s)
	full := withDefaults(v, s)
	if len(violations(s, full, "")) > 0 || len(unknownFields(s, v, "")) > 0 {
		return nil, false
	}
	if rapid.Bool().Draw(t, "with defaults") {
		return full, true
	}
	return v, true
}

// drawPair draws two schemas of objects. Mostly it derives the second from the first.
func drawPair(t *rapid.T) (was, is *Schema) {
	was = &Schema{Type: "object", Properties: map[string]*Schema{"f": drawSchema(t, 3)}}
	if maybe(t, "unrelated") {
		return was, &Schema{Type: "object", Properties: map[string]*Schema{"f": drawSchema(t, 3)}}
	}
	is = was
	for range rapid.IntRange(0, 3).Draw(t, "mutations") {
		is = mutate(t, is)
	}
	return was, is
}

func compareSchemas(was, is *Schema) []string {
	return compareVersions(&Version{Schema: Validation{was}}, &Version{Schema: Validation{is}})
}

// If Compare finds no reason, each value that fits the old schema fits the new one, and
// the server keeps the whole value.
func TestCompareIsSure(t *testing.T) {
	compatible, changed, values := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		was, is := drawPair(t)
		if len(compareSchemas(was, is)) > 0 {
			return
		}
		compatible++
		if !was.same(is) {
			changed++
		}
		for range 5 {
			v, ok := fitting(t, was)
			if !ok {
				continue
			}
			values++
			full := withDefaults(v, is)
			if found := violations(is, full, ""); len(found) > 0 {
				t.Fatalf("%s fits\n%s\nbut not\n%s\n%v", asJSON(v), asJSON(was), asJSON(is), found)
			}
			if found := unknownFields(is, full, ""); len(found) > 0 {
				t.Fatalf("%s fits\n%s\nand under\n%s\nloses %v", asJSON(v), asJSON(was), asJSON(is), found)
			}
		}
	})
	t.Logf("%d compatible pairs, %d of them not the same, %d values", compatible, changed, values)
}

// A schema fits itself, and Compare accepts a change that only widens it.
func TestCompareLetsThrough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		was := drawSchema(t, 3)
		if breaks := compareSchemas(was, was); len(breaks) > 0 {
			t.Fatalf("%s and itself: %v", asJSON(was), breaks)
		}
		raw := asJSON(was)
		is := new(Schema)
		if err := json.Unmarshal(raw, is); err != nil {
			t.Fatal(err)
		}
		for s := range is.walk() {
			s.Pattern, s.MinLength, s.MaxLength, s.Minimum, s.Maximum, s.MultipleOf = "", nil, nil, nil, nil, nil
			s.MinItems, s.MaxItems, s.ListType, s.MinProperties, s.MaxProperties = nil, nil, "", nil, nil
			s.AllOf, s.OneOf, s.Not, s.Required, s.Nullable = nil, nil, nil, nil, true
			s.Enum = nil
		}
		if breaks := compareSchemas(was, is); len(breaks) > 0 {
			t.Fatalf("%s and without constraints %s: %v", raw, asJSON(is), breaks)
		}
	})
}

func asJSON(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		return []byte(err.Error())
	}
	return raw
}
