package webhooktest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/big"
	"regexp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/pintle-go/pintle/crd"
)

// RoundTrip checks the functions that [crd.Converts] gave a definition. It draws objects of each version,
// converts them to each other version and back, and compares. A failure prints the object and the seed,
// with which the flag -rapid.seed draws it again. The counterpart is the fuzz test of conversions that
// Cluster API has in util/conversion.
//
// What a version lacks is kept by itself, so a difference means that a function changes an object
// that it was given, depends on something else than its arguments, or sets labels and annotations that
// do not come back. The test also fails if a function returns an error or panics, or if its result cannot be
// converted back.
//
// The objects fit the schemas, except for CEL rules and for anyOf, oneOf and not: objects that are older than a
// rule can be stored too.
func RoundTrip(t *testing.T, definition *crd.Definition) {
	t.Helper()
	if err := definition.Err(); err != nil {
		t.Fatal(err)
	}
	for _, from := range definition.Spec.Versions {
		for _, to := range definition.Spec.Versions {
			if from.Name != to.Name {
				t.Run(from.Name+" as "+to.Name, func(t *testing.T) {
					rapid.Check(t, func(r *rapid.T) { roundTrip(r, definition, &from, to.Name) })
				})
			}
		}
	}
}

func roundTrip(t *rapid.T, d *crd.Definition, from *crd.Version, to string) {
	object, _ := draw(t, from.Schema.OpenAPIV3Schema, 0).(map[string]any)
	object["apiVersion"], object["kind"] = d.Spec.Group+"/"+from.Name, d.Spec.Names.Kind
	object["metadata"] = map[string]any{
		"name": "a", "uid": "u", "resourceVersion": "1", "finalizers": []any{"example.com/f"},
		"labels": map[string]any{"l": "1"}, "annotations": map[string]any{"a": "1"},
	}
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	there, err := d.Convert(text, to)
	if err != nil {
		t.Fatalf("convert %s to %s: %v", text, to, err)
	}
	if again, err := d.Convert(text, to); !bytes.Equal(again, there) {
		t.Fatalf("convert %s to %s twice:\n%s\n%s %v", text, to, there, again, err)
	}
	back, err := d.Convert(there, from.Name)
	if err != nil {
		t.Fatalf("convert %s\nto %s\nand back: %v", text, there, err)
	}
	if a, b := decoded(t, text), decoded(t, back); !equalJSON(a, b) {
		t.Fatalf("the object does not come back:\n%s\n%s\n%s", text, there, back)
	}
}

func decoded(t *rapid.T, text []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("decode %s: %v", text, err)
	}
	return v
}

// equalJSON compares numbers by their exact values.
func equalJSON(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, equalJSON)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equalJSON)
	case json.Number:
		b, ok := b.(json.Number)
		x, isX := new(big.Rat).SetString(a.String())
		y, isY := new(big.Rat).SetString(b.String())
		return ok && isX && isY && x.Cmp(y) == 0
	}
	return a == b
}

// deepest is the depth from which optional fields are left out.
const deepest = 8

// draw draws a value of a schema.
func draw(t *rapid.T, s *crd.Schema, depth int) any {
	if s == nil {
		return rapid.SampledFrom([]any{nil, true, "x", 7, 1.5, []any{}, map[string]any{"a": []any{"b"}}}).Draw(t, "any")
	}
	if len(s.Enum) > 0 {
		return rapid.SampledFrom(s.Enum).Draw(t, "enum")
	}
	if s.Nullable && rapid.IntRange(0, 4).Draw(t, "null") == 0 {
		return nil
	}
	switch {
	case s.IntOrString && rapid.Bool().Draw(t, "integer"):
		return integer(t, s)
	case s.IntOrString:
		return text(t, s)
	case s.Type == "":
		return draw(t, nil, depth)
	}
	switch s.Type {
	case "boolean":
		return rapid.Bool().Draw(t, "boolean")
	case "integer":
		return integer(t, s)
	case "number":
		low, high := bounds(s, -1e6, 1e6)
		return rapid.Float64Range(low, high).Draw(t, "number")
	case "string":
		return text(t, s)
	case "array":
		return list(t, s, depth)
	}
	return object(t, s, depth)
}

// bounds returns the least and the greatest value of a number.
func bounds(s *crd.Schema, low, high float64) (least, greatest float64) {
	for _, part := range append([]*crd.Schema{s}, s.AllOf...) {
		if m := part.Minimum; m != nil {
			low = *m
			if part.ExclusiveMinimum {
				low = math.Nextafter(low, math.MaxFloat64)
			}
			high = max(high, low)
		}
		if m := part.Maximum; m != nil {
			high = *m
			if part.ExclusiveMaximum {
				high = math.Nextafter(high, -math.MaxFloat64)
			}
			low = min(low, high)
		}
	}
	return low, high
}

func integer(t *rapid.T, s *crd.Schema) any {
	low, high := bounds(s, math.MinInt64, math.MaxInt64)
	if s.Format == "int32" || s.IntOrString {
		low, high = bounds(s, math.MinInt32, math.MaxInt32)
	}
	step := int64(1)
	if s.MultipleOf != nil && *s.MultipleOf >= 1 {
		step = int64(*s.MultipleOf)
	}
	least, greatest := int64(math.MinInt64), int64(math.MaxInt64)
	if low > math.MinInt64 {
		least = int64(math.Ceil(low))
	}
	if high < math.MaxInt64 {
		greatest = int64(math.Floor(high))
	}
	from, to := least/step, greatest/step
	if from*step < least {
		from++
	}
	return rapid.Int64Range(from, max(from, to)).Draw(t, "integer") * step
}

func text(t *rapid.T, s *crd.Schema) any {
	var patterns []*regexp.Regexp
	for _, part := range append([]*crd.Schema{s}, s.AllOf...) {
		if part.Pattern != "" {
			patterns = append(patterns, regexp.MustCompile(part.Pattern))
		}
	}
	least, greatest := 0, 40
	if s.MinLength != nil {
		least = int(*s.MinLength)
		greatest = max(greatest, least)
	}
	if s.MaxLength != nil {
		greatest = min(greatest, int(*s.MaxLength))
	}
	var g *rapid.Generator[string]
	switch {
	case s.Format == "date-time":
		g = rapid.SampledFrom([]string{"2026-01-02T03:04:05Z", "1999-12-31T23:59:59+01:00", "2026-01-02T03:04:05.123456Z"})
	case s.Format == "date":
		return "2026-01-02"
	case s.Format == "byte":
		return rapid.SampledFrom([]string{"", "YQ==", "+/8="}).Draw(t, "bytes")
	case len(patterns) > 0:
		g = rapid.StringMatching(patterns[0].String())
	default:
		g = rapid.StringN(least, greatest, -1)
	}
	return g.Filter(func(v string) bool {
		n := len([]rune(v))
		return n >= least && (s.MaxLength == nil || n <= greatest) &&
			!slices.ContainsFunc(patterns, func(p *regexp.Regexp) bool { return !p.MatchString(v) })
	}).Draw(t, "string")
}

func list(t *rapid.T, s *crd.Schema, depth int) any {
	least, greatest := 0, 3
	if s.MinItems != nil {
		least = int(*s.MinItems)
		greatest = max(greatest, least)
	}
	if s.MaxItems != nil {
		greatest = min(greatest, int(*s.MaxItems))
	}
	if depth > deepest {
		greatest = least
	}
	all, seen := []any{}, make(map[string]bool)
	for range rapid.IntRange(least, greatest).Draw(t, "items") {
		item := draw(t, s.Items, depth+1)
		id := fmt.Sprint(item)
		if fields, ok := item.(map[string]any); ok && s.ListType == "map" {
			id = ""
			for _, key := range s.ListMapKeys {
				id += fmt.Sprintf("%v,", fields[key])
			}
		}
		if !seen[id] || s.ListType != "map" && s.ListType != "set" {
			all = append(all, item)
		}
		seen[id] = true
	}
	return all
}

func object(t *rapid.T, s *crd.Schema, depth int) any {
	fields := make(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if slices.Contains(s.Required, name) || depth < deepest && rapid.Bool().Draw(t, "has "+name) {
			fields[name] = draw(t, s.Properties[name], depth+1)
		}
	}
	if s.PreserveUnknownFields && len(s.Properties) == 0 && rapid.Bool().Draw(t, "unknown") {
		fields["unknown"] = draw(t, nil, depth+1)
	}
	if a := s.AdditionalProperties; a != nil && a.Allows {
		least, greatest := 0, 3
		if s.MinProperties != nil {
			least = int(*s.MinProperties)
			greatest = max(greatest, least)
		}
		if s.MaxProperties != nil {
			greatest = min(greatest, int(*s.MaxProperties))
		}
		for _, key := range rapid.SliceOfNDistinct(rapid.StringMatching("[a-z]{1,8}"), least, greatest,
			rapid.ID[string]).Draw(t, "keys") {
			fields[key] = draw(t, a.Schema, depth+1)
		}
	}
	if s.EmbeddedResource {
		fields["apiVersion"], fields["kind"] = "v1", "Pod"
	}
	return fields
}
