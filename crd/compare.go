package crd

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// comparer compares the schema of stored objects with another schema.
type comparer struct {
	versions string // which the objects are stored in and read as
	breaks   []string
}

func (c *comparer) add(path, format string, args ...any) {
	reason := c.versions + ": "
	if path != "" {
		reason += path + ": "
	}
	c.breaks = append(c.breaks, reason+fmt.Sprintf(format, args...))
}

// compare adds the reasons why a value that fits was may not fit is. If it finds no
// reason, each such value fits. ruled means that CEL rules of outer schemas check the
// value too.
func (c *comparer) compare(was, is *Schema, path string, ruled bool) {
	was, is = folded(was), folded(asked(was, is))
	if unrestricted(is) {
		return
	}
	if was.Nullable && !is.Nullable && is.typed() {
		c.add(path, "null is no longer allowed")
	}
	c.rules(was, is, path)
	ruled = ruled || slices.ContainsFunc(is.Rules, Rule.stands)
	if len(was.Enum) > 0 && !composite(was) {
		c.enumerated(was, is, path)
		return
	}
	if lost := missing(was.types(), is.types()); len(lost) > 0 {
		if !was.typed() {
			c.add(path, "any value was allowed, now it must be %s", is.typeText())
		} else {
			c.add(path, "the type changes from %s to %s", was.typeText(), is.typeText())
		}
		return
	}
	same := func(a, b json.RawMessage) bool { return sameJSON(a, b) }
	if len(is.Enum) > 0 && !slices.EqualFunc(was.Enum, is.Enum, same) {
		c.add(path, "only %s are allowed now", enumText(is.Enum))
	}
	has := func(t string) bool { return slices.Contains(was.types(), t) }
	if has("integer") {
		c.numbers(was, is, path)
	}
	if has("string") {
		c.strings(was, is, path)
	}
	if has("array") {
		c.lists(was, is, path, ruled)
	}
	if has("object") {
		c.objects(was, is, path, ruled)
	}
	c.junctors(was, is, path)
}

// unrestricted reports whether a schema allows any value and keeps the whole value.
func unrestricted(s *Schema) bool {
	bare := *s
	bare.Title, bare.Description, bare.Default, bare.Nullable = "", "", nil, false
	return bare.same(anyValue())
}

// composite reports whether a value may contain other values.
func composite(s *Schema) bool {
	return slices.Contains(s.types(), "array") || slices.Contains(s.types(), "object")
}

// missing returns the elements of list that are not in from.
func missing(list, from []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(from, s) })
}

// enumerated compares two schemas for each value of an enum.
func (c *comparer) enumerated(was, is *Schema, path string) {
	var lost []string
	for _, raw := range was.Enum {
		v, err := decodeJSON(raw)
		if err != nil || len(violations(was, v, "")) == 0 && len(violations(is, v, "")) > 0 {
			lost = append(lost, string(raw))
		}
	}
	if len(lost) > 0 {
		c.add(path, "%s is no longer allowed", strings.Join(lost, ", "))
	}
}

func countText(n *int64) string {
	if n == nil {
		return "none"
	}
	return fmt.Sprint(*n)
}

// counts compares the bounds of a length or of a number of entries.
func (c *comparer) counts(path, what string, wasMin, isMin, wasMax, isMax *int64) {
	if isMin != nil && *isMin > 0 && (wasMin == nil || *wasMin < *isMin) {
		c.add(path, "min%s rises from %s to %d", what, countText(wasMin), *isMin)
	}
	if isMax != nil && (wasMax == nil || *wasMax > *isMax) {
		c.add(path, "max%s falls from %s to %d", what, countText(wasMax), *isMax)
	}
}

// numbers compares the ranges of numbers, not the keywords that set them. A format beside
// a narrower minimum and maximum makes no difference.
func (c *comparer) numbers(was, is *Schema, path string) {
	narrower := false
	low, old := lowestOf(is), lowestOf(was)
	switch {
	case low.at < old.at || low.at == old.at && (!low.open || old.open):
	case low.format:
		narrower = true
	default:
		c.add(path, "the minimum rises from %s to %s",
			limitText(was.Minimum, was.ExclusiveMinimum), limitText(is.Minimum, is.ExclusiveMinimum))
	}
	high, old := highestOf(is), highestOf(was)
	switch {
	case high.at > old.at || high.at == old.at && (!high.open || old.open):
	case high.format:
		narrower = true
	default:
		c.add(path, "the maximum falls from %s to %s",
			limitText(was.Maximum, was.ExclusiveMaximum), limitText(is.Maximum, is.ExclusiveMaximum))
	}
	if narrower {
		c.add(path, "the format narrows from %q to %q", was.Format, is.Format)
	}
	if is.MultipleOf != nil && !areMultiples(was, *is.MultipleOf) {
		c.add(path, "the value must be a multiple of %v now", *is.MultipleOf)
	}
}

func (c *comparer) strings(was, is *Schema, path string) {
	c.counts(path, "Length", was.MinLength, is.MinLength, was.MaxLength, is.MaxLength)
	if is.Pattern != "" && is.Pattern != was.Pattern {
		c.add(path, "the pattern changes from %q to %q", was.Pattern, is.Pattern)
	}
	plain := func(format string) bool {
		return !slices.Contains(formats["string"], format) && format != "datetime" || format == "password"
	}
	name := func(format string) string {
		if format == "datetime" {
			return "date-time"
		}
		return format
	}
	if name(is.Format) != name(was.Format) && !plain(is.Format) {
		c.add(path, "the format changes from %q to %q", was.Format, is.Format)
	}
}

func (c *comparer) lists(was, is *Schema, path string, ruled bool) {
	c.counts(path, "Items", was.MinItems, is.MinItems, was.MaxItems, is.MaxItems)
	switch {
	case is.ListType == "set" && was.ListType != "set":
		c.add(path, "the items must be unique now")
	case is.ListType == "map" && (was.ListType != "map" || len(missing(was.ListMapKeys, is.ListMapKeys)) > 0):
		c.add(path, "the items must be unique by %s now", strings.Join(is.ListMapKeys, " and "))
	}
	if is.Items != nil {
		c.compare(orAny(was.Items), is.Items, path+"[]", ruled)
	}
}

func orAny(s *Schema) *Schema {
	if s == nil {
		return anyValue()
	}
	return s
}

func (c *comparer) objects(was, is *Schema, path string, ruled bool) {
	wasMin := fewestFields(was, is)
	c.counts(path, "Properties", &wasMin, is.MinProperties, was.MaxProperties, is.MaxProperties)
	if is.EmbeddedResource && !was.EmbeddedResource {
		c.add(path, "it must be a whole resource now, with apiVersion, kind and metadata")
	}
	for _, name := range is.Required {
		c.required(was, is, path, name)
	}
	// The schemas of fields without a schema of their own; nil: such fields are dropped.
	wasOther, isOther := othersOf(was), othersOf(is)
	// The API server knows some fields of each resource.
	resource := path == "" || was.EmbeddedResource && is.EmbeddedResource
	wasFields, isFields := fieldsOf(was, resource), fieldsOf(is, resource)
	for _, name := range slices.Sorted(maps.Keys(wasFields)) {
		target := isFields[name]
		if target == nil {
			target = isOther
		}
		if target == nil {
			c.add(path+jsonPathStep(name), "the field is removed, and its stored values would be dropped")
			continue
		}
		c.compare(wasFields[name], target, path+jsonPathStep(name), ruled)
	}
	if wasOther != nil {
		for _, name := range slices.Sorted(maps.Keys(isFields)) {
			if wasFields[name] == nil {
				c.compare(wasOther, isFields[name], path+jsonPathStep(name), ruled)
			}
		}
		switch {
		case isOther != nil:
			c.compare(wasOther, isOther, path+"[*]", ruled)
		case was.PreserveUnknownFields || !was.typed():
			c.add(path, "fields that the schema does not name were kept, and would be dropped")
		default:
			c.add(path, "it was a map, and its entries would be dropped")
		}
	}
	c.defaults(was, is, path, ruled)
}

// fewestFields returns the least number of fields of a value that s allows, once the defaults
// of is are filled in. Defaults of s may be missing in storage.
func fewestFields(s *Schema, is *Schema) int64 {
	lost := func(name string) bool {
		was, now := s.Properties[name], is.Properties[name]
		return was != nil && was.Default != nil && (now == nil || now.Default == nil)
	}
	var required, defaults int64
	for _, name := range s.Required {
		if !lost(name) {
			required++
		}
	}
	for name := range s.Properties {
		if lost(name) {
			defaults++
		}
	}
	if s.MinProperties == nil {
		return required
	}
	return max(required, *s.MinProperties-defaults)
}

// fieldsOf returns the schemas of the fields that are known by name. Every resource has
// apiVersion, kind and metadata, whether its schema names them or not. A schema can
// restrict only name and generateName of the metadata.
func fieldsOf(s *Schema, resource bool) map[string]*Schema {
	if !resource {
		return s.Properties
	}
	metadata := Schema{Type: "object", PreserveUnknownFields: true, Properties: map[string]*Schema{
		"name": {Type: "string"}, "generateName": {Type: "string"},
	}}
	all := map[string]*Schema{"apiVersion": {Type: "string"}, "kind": {Type: "string"}}
	maps.Copy(all, s.Properties)
	if own := s.Properties["metadata"]; own != nil {
		maps.Copy(metadata.Properties, own.Properties)
	}
	all["metadata"] = &metadata
	return all
}

// othersOf returns the schema of the fields that have no schema by name. It returns nil if
// such fields are dropped.
func othersOf(s *Schema) *Schema {
	switch {
	case s.values() != nil:
		return s.values()
	case s.PreserveUnknownFields, s.AdditionalProperties != nil && s.AdditionalProperties.Allows:
		return anyValue()
	}
	return nil
}

// required compares the schemas of a required field.
func (c *comparer) required(was, is *Schema, path, name string) {
	if (path == "" || is.EmbeddedResource) && (name == "metadata" || name == "kind" || name == "apiVersion") {
		return // embeddedResource covers a new requirement
	}
	if p := is.Properties[name]; p != nil && p.Default != nil {
		return
	}
	switch p := was.Properties[name]; {
	case !slices.Contains(was.Required, name):
		c.add(path+jsonPathStep(name), "the field is required now and has no default")
	case p != nil && p.Default != nil:
		c.add(path+jsonPathStep(name), "the field is required and its default is removed")
	}
}

// defaults compares the default values of missing fields.
func (c *comparer) defaults(was, is *Schema, path string, ruled bool) {
	for _, name := range slices.Sorted(maps.Keys(is.Properties)) {
		p, old := is.Properties[name], was.Properties[name]
		if p.Default == nil || old != nil && old.Default != nil && sameJSON(p.Default, old.Default) {
			continue
		}
		switch {
		case is.MaxProperties != nil && (old == nil || old.Default == nil):
			c.add(path+jsonPathStep(name), "its new default counts towards maxProperties")
		case ruled && old != nil:
			c.add(path+jsonPathStep(name), "the default changes, and rules may look at it")
		}
	}
}

// stands reports whether a rule can reject an object without its old version.
func (r Rule) stands() bool {
	return !usesOldSelf(r.Rule) || r.OptionalOldSelf != nil && *r.OptionalOldSelf
}

func (c *comparer) rules(was, is *Schema, path string) {
	for _, r := range is.Rules {
		known := slices.ContainsFunc(was.Rules, func(o Rule) bool {
			return strings.TrimSpace(o.Rule) == strings.TrimSpace(r.Rule) && o.stands()
		})
		if r.stands() && !known {
			c.add(path, "the rule %s is new", r.Rule)
		}
	}
}

// junctors compares conditions that combine other conditions.
func (c *comparer) junctors(was, is *Schema, path string) {
	for _, part := range is.AllOf {
		if !slices.ContainsFunc(was.AllOf, part.same) {
			c.add(path, "allOf has a new condition")
		}
	}
	changed := func(was, is []*Schema) bool {
		return len(is) > 0 && !slices.EqualFunc(was, is, (*Schema).same)
	}
	// anyOf of an int-or-string repeats its type.
	said := is.IntOrString && isIntOrString(is.AnyOf)
	if changed(was.AnyOf, is.AnyOf) && !said {
		c.add(path, "anyOf changes")
	}
	if changed(was.OneOf, is.OneOf) {
		c.add(path, "oneOf changes")
	}
	if is.Not != nil && (was.Not == nil || !was.Not.same(is.Not)) {
		c.add(path, "not changes")
	}
}
