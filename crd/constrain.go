package crd

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/pintle-go/pintle/crd/internal/nearest"
)

// This file applies the directives that set one word of a schema.

// onlyFor returns an error if a schema has none of the types.
func onlyFor(s *Schema, types ...string) error {
	if slices.Contains(types, s.typeText()) || s.typeText() == "map" && slices.Contains(types, "object") {
		return nil
	}
	return fmt.Errorf("it is for %s, this is %s", strings.Join(types, ", "), s.typeText())
}

// requireContent gives a string, list, map or struct a minimum of 1, unless it has a minimum.
func requireContent(s *Schema) error {
	one := int64(1)
	least := map[string]**int64{"string": &s.MinLength, "array": &s.MinItems, "object": &s.MinProperties}[s.Type]
	if least != nil && *least == nil {
		*least = &one
	}
	return onlyFor(s, "string", "array", "object")
}

func deprecatedText(description, instead string) string {
	text := "Deprecated"
	if instead != "" {
		text += ": " + instead
	}
	if description == "" {
		return text
	}
	return description + "\n\n" + text
}

func setNumber(s *Schema, d directive) error {
	if !d.given { // the limit that the schema has is exclusive
		s.ExclusiveMinimum = s.ExclusiveMinimum || d.key == "exclusiveMin"
		s.ExclusiveMaximum = s.ExclusiveMaximum || d.key == "exclusiveMax"
		return onlyFor(s, "integer", "number", "int-or-string")
	}
	n, err := strconv.ParseFloat(d.value, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return errors.New("it is not a number")
	}
	if s.isWhole() && n != math.Trunc(n) {
		return errors.New("an integer's must be an integer")
	}
	if i, err := strconv.ParseInt(d.value, 10, 64); err == nil && (n >= 1<<63 || int64(n) != i) {
		return fmt.Errorf("servers would read it as %.0f, because they keep limits as float64", n)
	}
	switch d.key {
	case "min", "exclusiveMin":
		s.Minimum, s.ExclusiveMinimum = &n, d.key == "exclusiveMin" || d.mark != nil && s.ExclusiveMinimum
	case "max", "exclusiveMax":
		s.Maximum, s.ExclusiveMaximum = &n, d.key == "exclusiveMax" || d.mark != nil && s.ExclusiveMaximum
	default:
		if n <= 0 {
			return errors.New("it must be above 0")
		}
		s.MultipleOf = &n
	}
	return onlyFor(s, "integer", "number", "int-or-string")
}

func setCount(s *Schema, d directive) error {
	n, err := strconv.ParseInt(d.value, 10, 64)
	if err != nil || n < 0 {
		return errors.New("it is not a number of 0 or more")
	}
	switch d.key {
	case "minLength":
		s.MinLength = &n
		return onlyFor(s, "string", "int-or-string")
	case "maxLength":
		s.MaxLength = &n
		return onlyFor(s, "string", "int-or-string")
	case "minItems":
		s.MinItems = &n
		return onlyFor(s, "array")
	case "maxItems":
		s.MaxItems = &n
		return onlyFor(s, "array")
	case "minProperties":
		s.MinProperties = &n
	default:
		s.MaxProperties = &n
	}
	return onlyFor(s, "object")
}

// setFormat sets a format. Markers may name formats that servers ignore.
func setFormat(s *Schema, d directive) error {
	known, ok := formats[s.Type]
	switch {
	case d.mark != nil:
	case !ok || s.IntOrString:
		return onlyFor(s, "string", "integer", "number")
	case !slices.Contains(known, d.value):
		return fmt.Errorf("servers do not know this format%s", nearest.DidYouMean(d.value, known))
	}
	s.Format = d.value
	return nil
}

func setListOrMap(s *Schema, d directive) error {
	switch d.key {
	case "mapType":
		if d.value != "atomic" && d.value != "granular" {
			return errors.New("want atomic or granular")
		}
		s.MapType = d.value
		return onlyFor(s, "object")
	case "listMapKey":
		if keys := strings.Split(d.value, "|"); d.mark == nil {
			s.ListMapKeys = keys
		} else if !slices.Contains(s.ListMapKeys, d.value) { // each marker names one key
			s.ListMapKeys = append(s.ListMapKeys, keys...)
		}
		if s.ListType == "" {
			s.ListType = "map"
		}
		return onlyFor(s, "array")
	}
	if !slices.Contains([]string{"atomic", "set", "map"}, d.value) {
		return errors.New("want atomic, set or map")
	}
	if s.ListType = d.value; s.ListType != "map" {
		s.ListMapKeys = nil
	}
	return onlyFor(s, "array")
}

// setEnum reads the values of an enum: values with bars between them, or a JSON array. The
// JSON array of a marker has the texts of the values.
func setEnum(s *Schema, d directive) error {
	if err := onlyFor(s, "string", "integer", "number", "boolean", "int-or-string"); err != nil {
		return err
	}
	var values []json.RawMessage
	var parts []string
	switch {
	case d.mark != nil && json.Unmarshal([]byte(d.value), &parts) == nil:
	case strings.HasPrefix(d.value, "["):
		if err := json.Unmarshal([]byte(d.value), &values); err != nil {
			return fmt.Errorf("%q is not a JSON array: %w", d.value, err)
		}
	case strings.Contains(d.value, ";"):
		return errors.New("separate its values with bars, as in enum=a|b: " +
			"a value with a semicolon is written in a JSON array")
	default:
		parts = strings.Split(d.value, "|")
	}
	for _, part := range parts {
		value, err := literalOf(s, strings.TrimSpace(part))
		if err != nil {
			return err
		}
		values = append(values, value)
	}
	for i, v := range values {
		if slices.ContainsFunc(values[:i], func(o json.RawMessage) bool { return sameJSON(o, v) }) {
			return fmt.Errorf("%s is given twice", v)
		}
	}
	s.Enum = values
	return nil
}
