package crd

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pintle-go/pintle/crd/internal/nearest"
)

// violations returns the errors of a value under a schema, as the server would report
// them. Only the server checks CEL rules and some formats.
func violations(s *Schema, v any, path string) []string {
	var found []string
	add := func(format string, args ...any) {
		if path != "" {
			format = path + ": " + format
		}
		found = append(found, fmt.Sprintf(format, args...))
	}
	if v == nil {
		if !s.Nullable && (s.Type != "" || s.IntOrString) {
			add("it must not be null")
		}
		return found
	}
	if !accepts(s, v) {
		add("it must be %s, not %s", s.typeText(), typeOf(v))
		return found
	}
	if len(s.Enum) > 0 && !inEnum(s, v) {
		add("it must be one of %s", enumText(s.Enum))
	}
	switch v := v.(type) {
	case json.Number:
		for _, f := range numberViolations(s, v) {
			add("%s", f)
		}
	case string:
		for _, f := range stringViolations(s, v) {
			add("%s", f)
		}
	case []any:
		found = append(found, listViolations(s, v, path)...)
	case map[string]any:
		found = append(found, objectViolations(s, v, path)...)
	}
	for _, part := range s.AllOf {
		found = append(found, violations(part, v, path)...)
	}
	fit := func(part *Schema) bool { return len(violations(part, v, "")) == 0 }
	if len(s.AnyOf) > 0 && !slices.ContainsFunc(s.AnyOf, fit) {
		add("it satisfies no schema in anyOf")
	}
	if len(s.OneOf) > 0 {
		n := 0
		for _, part := range s.OneOf {
			if fit(part) {
				n++
			}
		}
		if n != 1 {
			add("it satisfies %d of oneOf, not one", n)
		}
	}
	if s.Not != nil && fit(s.Not) {
		add("it satisfies the schema in not")
	}
	return found
}

func typeOf(v any) string {
	switch v := v.(type) {
	case json.Number:
		if isInteger(v) {
			return "integer"
		}
		return "number"
	case string:
		return "string"
	case bool:
		return "boolean"
	case []any:
		return "array"
	}
	return "object"
}

func isInteger(n json.Number) bool { return rational(n).IsInt() }

// accepts reports whether a value, which is not null, has the schema's type.
func accepts(s *Schema, v any) bool {
	t := typeOf(v)
	switch {
	case s.IntOrString:
		return t == "integer" || t == "string"
	case s.Type == "", s.Type == t:
		return true
	}
	return s.Type == "number" && t == "integer"
}

func inEnum(s *Schema, v any) bool {
	return slices.ContainsFunc(s.Enum, func(raw json.RawMessage) bool {
		e, err := decodeJSON(raw)
		return err == nil && equalValues(e, v)
	})
}

func enumText(enum []json.RawMessage) string {
	texts := make([]string, len(enum))
	for i, e := range enum {
		texts[i] = string(e)
	}
	return strings.Join(texts, ", ")
}

func numberViolations(s *Schema, n json.Number) (found []string) {
	r := rational(n)
	compare := func(limit *float64) int { return r.Cmp(new(big.Rat).SetFloat64(*limit)) }
	if s.Minimum != nil && (compare(s.Minimum) < 0 || s.ExclusiveMinimum && compare(s.Minimum) == 0) {
		found = append(found, fmt.Sprintf("%s is below the minimum %v", n, *s.Minimum))
	}
	if s.Maximum != nil && (compare(s.Maximum) > 0 || s.ExclusiveMaximum && compare(s.Maximum) == 0) {
		found = append(found, fmt.Sprintf("%s is above the maximum %v", n, *s.Maximum))
	}
	if s.MultipleOf != nil && !new(big.Rat).Quo(r, new(big.Rat).SetFloat64(*s.MultipleOf)).IsInt() {
		found = append(found, fmt.Sprintf("%s is not a multiple of %v", n, *s.MultipleOf))
	}
	if s.Format == "int32" && s.Type == "integer" {
		if lo, hi := float64(math.MinInt32), float64(math.MaxInt32); compare(&lo) < 0 || compare(&hi) > 0 {
			found = append(found, fmt.Sprintf("%s does not fit into 32 bits", n))
		}
	}
	return found
}

func stringViolations(s *Schema, v string) (found []string) {
	length := int64(utf8.RuneCountInString(v))
	if s.MinLength != nil && length < *s.MinLength {
		found = append(found, fmt.Sprintf("it must have at least %d characters", *s.MinLength))
	}
	if s.MaxLength != nil && length > *s.MaxLength {
		found = append(found, fmt.Sprintf("it must have at most %d characters", *s.MaxLength))
	}
	if s.Pattern != "" {
		if re, err := regexp.Compile(s.Pattern); err != nil || !re.MatchString(v) {
			found = append(found, fmt.Sprintf("%q does not match %s", v, s.Pattern))
		}
	}
	if err := checkFormat(s.Format, v); err != nil {
		found = append(found, fmt.Sprintf("%q is not a valid %s: %v", v, s.Format, err))
	}
	return found
}

// checkFormat checks the most common formats of strings.
func checkFormat(format, v string) (err error) {
	switch format {
	case "date-time", "datetime":
		_, err = time.Parse(time.RFC3339, strings.ToUpper(v))
	case "date":
		_, err = time.Parse(time.DateOnly, v)
	case "duration":
		_, err = time.ParseDuration(strings.ReplaceAll(v, " ", ""))
	case "byte":
		_, err = base64.StdEncoding.DecodeString(v)
	case "uri":
		_, err = url.ParseRequestURI(v)
	case "cidr":
		_, err = netip.ParsePrefix(v)
	case "ipv4", "ipv6":
		var a netip.Addr
		if a, err = netip.ParseAddr(v); err == nil && a.Is4() != (format == "ipv4") {
			err = fmt.Errorf("it is an address of the other IP family")
		}
	}
	return err
}

func listViolations(s *Schema, v []any, path string) (found []string) {
	at := func(format string, args ...any) {
		found = append(found, strings.TrimPrefix(path+": ", ": ")+fmt.Sprintf(format, args...))
	}
	if s.MinItems != nil && int64(len(v)) < *s.MinItems {
		at("it must have at least %d items", *s.MinItems)
	}
	if s.MaxItems != nil && int64(len(v)) > *s.MaxItems {
		at("it must have at most %d items", *s.MaxItems)
	}
	for i, item := range v {
		if s.Items != nil {
			found = append(found, violations(s.Items, item, fmt.Sprintf("%s[%d]", path, i))...)
		}
		for _, other := range v[:i] {
			if s.ListType == "set" && equalValues(item, other) || s.ListType == "map" && sameKeys(s, item, other) {
				at("item %d is a duplicate", i)
			}
		}
	}
	return found
}

// sameKeys reports whether two elements of a list that is a map have the same keys.
func sameKeys(s *Schema, a, b any) bool {
	ma, oka := a.(map[string]any)
	mb, okb := b.(map[string]any)
	if !oka || !okb {
		return false
	}
	return !slices.ContainsFunc(s.ListMapKeys, func(k string) bool { return !equalValues(ma[k], mb[k]) })
}

func objectViolations(s *Schema, v map[string]any, path string) (found []string) {
	at := func(format string, args ...any) {
		found = append(found, strings.TrimPrefix(path+": ", ": ")+fmt.Sprintf(format, args...))
	}
	if s.MinProperties != nil && int64(len(v)) < *s.MinProperties {
		at("it must have at least %d entries", *s.MinProperties)
	}
	if s.MaxProperties != nil && int64(len(v)) > *s.MaxProperties {
		at("it must have at most %d entries", *s.MaxProperties)
	}
	for _, name := range s.Required {
		if _, ok := v[name]; !ok {
			at("%s is required", name)
		}
	}
	for name, value := range v {
		if p := s.Properties[name]; p != nil {
			found = append(found, violations(p, value, path+"."+name)...)
		} else if p := s.values(); p != nil {
			found = append(found, violations(p, value, path+"."+name)...)
		}
	}
	slices.Sort(found)
	return found
}

// unknownFields returns the paths of the fields in a value that the server would drop.
func unknownFields(s *Schema, v any, path string) (found []string) {
	switch v := v.(type) {
	case []any:
		for i, item := range v {
			if s.Items != nil {
				found = append(found, unknownFields(s.Items, item, fmt.Sprintf("%s[%d]", path, i))...)
			}
		}
	case map[string]any:
		for name, value := range v {
			switch {
			case s.Properties[name] != nil:
				found = append(found, unknownFields(s.Properties[name], value, path+"."+name)...)
			case s.values() != nil:
				found = append(found, unknownFields(s.values(), value, path+"."+name)...)
			case !s.PreserveUnknownFields && (s.AdditionalProperties == nil || !s.AdditionalProperties.Allows):
				found = append(found, path+"."+name)
			}
		}
		slices.Sort(found)
	}
	return found
}

// consistent returns the contradictions within a schema. It does not look at nested
// schemas.
func consistent(s *Schema) error {
	switch {
	case s.Minimum != nil && s.Maximum != nil && *s.Minimum > *s.Maximum:
		return fmt.Errorf("the minimum %v is above the maximum %v", *s.Minimum, *s.Maximum)
	case above(s.MinLength, s.MaxLength):
		return fmt.Errorf("minLength %d is above maxLength %d", *s.MinLength, *s.MaxLength)
	case above(s.MinItems, s.MaxItems):
		return fmt.Errorf("minItems %d is above maxItems %d", *s.MinItems, *s.MaxItems)
	case above(s.MinProperties, s.MaxProperties):
		return fmt.Errorf("minProperties %d is above maxProperties %d", *s.MinProperties, *s.MaxProperties)
	}
	if s.ListType == "map" {
		if err := checkMapKeys(s, s.ListMapKeys); err != nil {
			return err
		}
	}
	if s.ListType == "set" {
		switch i := s.Items; {
		case i.Nullable:
			return fmt.Errorf("the elements of a set cannot be null")
		case i.Type == "object" && i.MapType != "atomic":
			return fmt.Errorf("the structs in a set must be atomic: add items.mapType=atomic, or make it a map with listMapKey")
		}
	}
	whole := *s
	whole.Enum = nil
	for _, raw := range s.Enum {
		if err := fits(&whole, raw); err != nil {
			return fmt.Errorf("enum: %w", err)
		}
	}
	if s.Default != nil {
		if err := fits(s, s.Default); err != nil {
			return fmt.Errorf("default: %w", err)
		}
	}
	return nil
}

func above(low, high *int64) bool { return low != nil && high != nil && *low > *high }

// fits returns the errors of a value that the schema itself contains.
func fits(s *Schema, raw json.RawMessage) error {
	v, err := decodeJSON(raw)
	if err != nil {
		return err
	}
	if found := violations(s, v, ""); len(found) > 0 {
		return fmt.Errorf("%s: %s", raw, strings.Join(found, "; "))
	}
	if found := unknownFields(s, v, ""); len(found) > 0 {
		return fmt.Errorf("%s: there is no field %s", raw, strings.Join(found, ", "))
	}
	return nil
}

// formats are the formats that API servers check. Servers ignore all other formats.
var formats = map[string][]string{
	"string": {"bsonobjectid", "uri", "email", "hostname", "ipv4", "ipv6", "cidr", "mac",
		"uuid", "uuid3", "uuid4", "uuid5", "isbn", "isbn10", "isbn13", "creditcard", "ssn", "hexcolor", "rgbcolor",
		"byte", "password", "date", "duration", "date-time", "k8s-short-name", "k8s-long-name"},
	"integer": {"int32", "int64"},
	"number":  {"float", "double"},
}

// checkMapKeys returns an error if keys cannot be the keys of a list, or nil.
func checkMapKeys(s *Schema, keys []string) error {
	if len(keys) == 0 {
		return errors.New("a list that is a map needs listMapKey")
	}
	if s.Items == nil || s.Items.Type != "object" {
		return errors.New("only a list of structs can be a map")
	}
	if s.Items.Nullable {
		return errors.New("the elements of a map cannot be null")
	}
	names := make([]string, 0, len(s.Items.Properties))
	for name := range s.Items.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, key := range keys {
		p := s.Items.Properties[key]
		switch {
		case slices.Contains(keys[:i], key):
			return fmt.Errorf("map key %s is given twice", key)
		case p == nil:
			return fmt.Errorf("the elements have no field %s for a map key%s", key, nearest.DidYouMean(key, names))
		case p.Type == "object" || p.Type == "array" || p.Type == "":
			return fmt.Errorf("map key %s is %s: it must be a scalar", key, p.typeText())
		case p.Nullable:
			return fmt.Errorf("map key %s cannot be nullable", key)
		case p.Default == nil && !slices.Contains(s.Items.Required, key):
			return fmt.Errorf("map key %s must be required or have a default", key)
		}
	}
	return nil
}
