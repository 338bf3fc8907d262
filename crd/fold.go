package crd

import (
	"encoding/json"
	"slices"
)

// folded returns a schema that allows the same values with fewer words. Where possible,
// it moves the constraints in allOf into the schema itself. Generators write an allOf
// where a type and a field of that type both have constraints.
func folded(s *Schema) *Schema {
	if len(s.AllOf) == 0 {
		return s
	}
	f := *s
	f.AllOf = nil
	for _, part := range s.AllOf {
		if s.IntOrString && saysIntOrString(part) {
			continue
		}
		if !fold(&f, part) {
			f.AllOf = append(f.AllOf, part)
		}
	}
	return &f
}

// saysIntOrString reports whether a schema says only that a value is an integer or a
// string.
func saysIntOrString(s *Schema) bool {
	return (&Schema{AnyOf: s.AnyOf}).same(s) && isIntOrString(s.AnyOf)
}

// isIntOrString reports whether anyOf has the two alternatives of an int-or-string, in
// any order.
func isIntOrString(anyOf []*Schema) bool {
	integer, text := &Schema{Type: "integer"}, &Schema{Type: "string"}
	return len(anyOf) == 2 && slices.ContainsFunc(anyOf, integer.same) && slices.ContainsFunc(anyOf, text.same)
}

// fold adds the constraints of another schema to a schema. It reports whether it could.
func fold(s *Schema, part *Schema) bool {
	simple := Schema{
		Enum: part.Enum, Pattern: part.Pattern, Format: part.Format, MultipleOf: part.MultipleOf,
		Minimum: part.Minimum, ExclusiveMinimum: part.ExclusiveMinimum,
		Maximum: part.Maximum, ExclusiveMaximum: part.ExclusiveMaximum,
		MinLength: part.MinLength, MaxLength: part.MaxLength, MinItems: part.MinItems, MaxItems: part.MaxItems,
		MinProperties: part.MinProperties, MaxProperties: part.MaxProperties,
	}
	enum := common(s.Enum, part.Enum)
	fits := func(own, other string) bool { return other == "" || own == "" || own == other }
	switch {
	case !simple.same(part), len(enum) == 0 && len(part.Enum) > 0,
		!fits(s.Pattern, part.Pattern), !fits(s.Format, part.Format),
		s.MultipleOf != nil && part.MultipleOf != nil && *s.MultipleOf != *part.MultipleOf:
		return false
	}
	s.Pattern, s.Format = either(s.Pattern, part.Pattern), either(s.Format, part.Format)
	if part.MultipleOf != nil {
		s.MultipleOf = part.MultipleOf
	}
	s.Enum = enum
	if m := part.Minimum; m != nil && (s.Minimum == nil || *m > *s.Minimum || *m == *s.Minimum && part.ExclusiveMinimum) {
		s.Minimum, s.ExclusiveMinimum = m, part.ExclusiveMinimum
	}
	if m := part.Maximum; m != nil && (s.Maximum == nil || *m < *s.Maximum || *m == *s.Maximum && part.ExclusiveMaximum) {
		s.Maximum, s.ExclusiveMaximum = m, part.ExclusiveMaximum
	}
	raise := func(own **int64, other *int64) {
		if other != nil && (*own == nil || *other > **own) {
			*own = other
		}
	}
	lower := func(own **int64, other *int64) {
		if other != nil && (*own == nil || *other < **own) {
			*own = other
		}
	}
	raise(&s.MinLength, part.MinLength)
	lower(&s.MaxLength, part.MaxLength)
	raise(&s.MinItems, part.MinItems)
	lower(&s.MaxItems, part.MaxItems)
	raise(&s.MinProperties, part.MinProperties)
	lower(&s.MaxProperties, part.MaxProperties)
	return true
}

// takeConstraints returns the constraints of a schema that a second one can have beside
// it, and removes them.
func takeConstraints(s *Schema) *Schema {
	taken := &Schema{
		Pattern: s.Pattern, MultipleOf: s.MultipleOf,
		Minimum: s.Minimum, ExclusiveMinimum: s.ExclusiveMinimum,
		Maximum: s.Maximum, ExclusiveMaximum: s.ExclusiveMaximum,
		MinLength: s.MinLength, MaxLength: s.MaxLength, MinItems: s.MinItems, MaxItems: s.MaxItems,
		MinProperties: s.MinProperties, MaxProperties: s.MaxProperties,
	}
	s.Pattern, s.MultipleOf = "", nil
	s.Minimum, s.ExclusiveMinimum, s.Maximum, s.ExclusiveMaximum = nil, false, nil, false
	s.MinLength, s.MaxLength, s.MinItems, s.MaxItems = nil, nil, nil, nil
	s.MinProperties, s.MaxProperties = nil, nil
	return taken
}

// narrow adds the result of takeConstraints to a schema. Both hold afterwards.
func narrow(s *Schema, taken *Schema) {
	// Without a limit of its own the schema makes the other one exclusive.
	taken.ExclusiveMinimum = taken.ExclusiveMinimum || s.Minimum == nil && s.ExclusiveMinimum
	taken.ExclusiveMaximum = taken.ExclusiveMaximum || s.Maximum == nil && s.ExclusiveMaximum
	if s.Pattern != "" && taken.Pattern != "" && s.Pattern != taken.Pattern {
		s.AllOf = append(s.AllOf, &Schema{Pattern: taken.Pattern}, &Schema{Pattern: s.Pattern})
		s.Pattern, taken.Pattern = "", ""
	}
	if m := taken.MultipleOf; s.MultipleOf != nil && m != nil && *s.MultipleOf != *m {
		s.AllOf = append(s.AllOf, &Schema{MultipleOf: m}, &Schema{MultipleOf: s.MultipleOf})
		s.MultipleOf, taken.MultipleOf = nil, nil
	}
	fold(s, taken)
}

func either(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// common returns the values that two enums share. An empty enum allows any value.
func common(a, b []json.RawMessage) []json.RawMessage {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	return slices.DeleteFunc(slices.Clone(a), func(raw json.RawMessage) bool {
		return !slices.ContainsFunc(b, func(o json.RawMessage) bool { return sameJSON(raw, o) })
	})
}
