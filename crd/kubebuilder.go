package crd

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// The package reads the markers of controller-gen in the comments of a type as if they
// were crd tags. This file maps each marker to the key of a tag.
//
// See https://book.kubebuilder.io/reference/markers.

// markKeys maps markers to keys of tags. Some keys exist for markers only.
var markKeys = map[string]string{
	"kubebuilder:validation:Maximum": "max", "kubebuilder:validation:Minimum": "min",
	"kubebuilder:validation:ExclusiveMaximum": "openMax", "kubebuilder:validation:ExclusiveMinimum": "openMin",
	"kubebuilder:validation:MultipleOf":    "multipleOf",
	"kubebuilder:validation:MinProperties": "minProperties", "kubebuilder:validation:MaxProperties": "maxProperties",
	"kubebuilder:validation:MinLength": "minLength", "kubebuilder:validation:MaxLength": "maxLength",
	"kubebuilder:validation:Pattern":  "pattern",
	"kubebuilder:validation:MinItems": "minItems", "kubebuilder:validation:MaxItems": "maxItems",
	"kubebuilder:validation:UniqueItems": "uniqueItems",
	"kubebuilder:validation:Enum":        "enum", "kubebuilder:validation:Type": "type",
	"kubebuilder:validation:Format":                 "anyFormat",
	"kubebuilder:validation:XPreserveUnknownFields": "preserveUnknownFields",
	"kubebuilder:pruning:PreserveUnknownFields":     "preserveUnknownFields",
	"kubebuilder:validation:XEmbeddedResource":      "embeddedResource",
	"kubebuilder:validation:EmbeddedResource":       "embeddedResource",
	"kubebuilder:validation:XIntOrString":           "intOrString",
	"kubebuilder:validation:XValidation":            "rule",
	"kubebuilder:validation:AtMostOneOf":            "<=",
	"kubebuilder:validation:ExactlyOneOf":           "==",
	"kubebuilder:validation:AtLeastOneOf":           ">=",
	"kubebuilder:validation:Schemaless":             "schemaless",
	"kubebuilder:validation:Required":               "required", "kubebuilder:validation:Optional": "optional",
	"required": "required", "optional": "optional", "k8s:required": "required", "k8s:optional": "optional",
	"nullable": "nullable", "kubebuilder:default": "default", "default": "default", "kubebuilder:title": "title",
	"listType": "listType", "listMapKey": "listMapKey", "mapType": "mapType", "structType": "structType",
	"k8s:listType": "listType", "k8s:listMapKey": "listMapKey", "k8s:immutable": "immutable",
	"k8s:maxItems": "maxItems", "k8s:minimum": "min", "k8s:maximum": "max",
}

// kindMarkNames are the markers that are about a kind as a whole.
var kindMarkNames = []string{
	"kubebuilder:subresource:status", "kubebuilder:subresource:scale", "kubebuilder:printcolumn",
	"kubebuilder:resource",
	"kubebuilder:storageversion", "kubebuilder:unservedversion",
	"kubebuilder:deprecatedversion", "kubebuilder:skipversion",
	"kubebuilder:metadata", "kubebuilder:selectablefield",
}

// ignoredMarks have no effect on a schema: they are for other generators, or for readers
// of documentation.
var ignoredMarks = []string{
	"kubebuilder:object", "kubebuilder:ac", "kubebuilder:rbac", "kubebuilder:webhook",
	"kubebuilder:webhookconfiguration", "kubebuilder:scaffold", "kubebuilder:skip", "kubebuilder:example",
	"kubebuilder:externalDocs", "kubebuilder:docs-gen", "kubebuilder:doc",
}

const (
	markPrefix  = "kubebuilder:"
	itemsPrefix = "kubebuilder:validation:items:"
)

// parsed is a marker with a known name.
type parsed struct {
	path  []string // items, for the elements of a list
	name  string
	value string
	given bool
	// args is the text of the arguments of a marker that has several.
	args string
}

// parse returns the parsed marker. It returns false for a marker that has no effect on a
// schema, and an error for an unknown marker of controller-gen.
func (m mark) parse() (p parsed, ok bool, err error) {
	name, value, given := m.name()
	for {
		rest, items := strings.CutPrefix(name, itemsPrefix)
		if !items {
			break
		}
		name, p.path = "kubebuilder:validation:"+rest, append(p.path, inItems)
	}
	known := func(name string) bool { return markKeys[name] != "" || slices.Contains(kindMarkNames, name) }
	p.name, p.value, p.given = name, value, given
	if known(name) {
		return p, true, nil
	}
	if i := strings.LastIndex(name, ":"); i >= 0 && known(name[:i]) {
		p.name, p.args = name[:i], name[i+1:]
		if given {
			p.args += "=" + value
		}
		return p, true, nil
	}
	if isForeign(name) {
		return p, false, nil
	}
	names := slices.AppendSeq(slices.Clone(kindMarkNames), maps.Keys(markKeys))
	slices.Sort(names)
	return p, false, fmt.Errorf("the marker is not known%s", didYouMean(name, names))
}

// isForeign reports whether a name is that of a marker for other generators.
func isForeign(name string) bool {
	if strings.HasPrefix(name, "k8s:") {
		return strings.Contains(name, "-gen")
	}
	return !strings.HasPrefix(name, markPrefix) || slices.ContainsFunc(ignoredMarks, func(ignored string) bool {
		return name == ignored || strings.HasPrefix(name, ignored+":")
	})
}

// directives returns the effect of a marker on a schema as the directives of a tag. It
// returns none for markers of other generators.
func (m mark) directives() ([]directive, error) {
	p, ok, err := m.parse()
	key := markKeys[p.name]
	switch {
	case err != nil || !ok:
		return nil, err
	case key == "":
		return nil, errors.New("it belongs to the type of a kind")
	}
	d := directive{path: p.path, key: key, value: p.value, given: p.given, mark: &m}
	switch key {
	case "rule":
		return d.ruleOf(p.args)
	case "<=", "==", ">=":
		return d.oneOf()
	case "enum":
		d.list, err = markList(d.value)
		return []directive{d}, err
	case "intOrString":
		d.key, d.value = "type", "int-or-string"
		return []directive{d}, nil
	case "required":
		if notEmpty := d; p.name == "k8s:required" {
			notEmpty.key = "notEmpty"
			return []directive{d, notEmpty}, nil
		}
	case "pattern", "title", "anyFormat", "type":
		d.value, err = unquoted(d.value)
	case "uniqueItems":
		err = errors.New("servers forbid uniqueItems: use listType=set")
	}
	switch {
	case err != nil:
	case p.args != "":
		err = errors.New("it has one value and no arguments")
	case p.value == "false" && slices.Contains(flagKeys, key) && !strings.HasPrefix(key, "open"):
		err = errors.New("it cannot be false: leave it out")
	case !p.given && !slices.Contains(flagKeys, key):
		err = errors.New("its value is missing")
	}
	return []directive{d}, err
}

// flagKeys are the keys that need no value.
var flagKeys = []string{
	"preserveUnknownFields", "embeddedResource", "schemaless", "required", "optional", "nullable", "immutable",
	"openMin", "openMax",
}

// ruleOf returns the directives of an XValidation marker.
func (d directive) ruleOf(text string) ([]directive, error) {
	args, err := arguments(text)
	if err != nil {
		return nil, err
	}
	list := make([]directive, 1, len(args))
	list[0] = d
	list[0].value = ""
	for _, a := range args {
		detail := directive{path: d.path, key: a.name, value: a.value, given: true, mark: d.mark}
		switch a.name {
		case "rule":
			list[0].value = a.value
		case "message", "messageExpression", "reason", "fieldPath":
			list = append(list, detail)
		case "optionalOldSelf":
			if a.value == "true" {
				list = append(list, detail)
			}
		default:
			return nil, fmt.Errorf("it has no argument %s", a.name)
		}
	}
	if list[0].value == "" {
		return nil, errors.New("its rule is missing")
	}
	return list, nil
}

// oneOf returns the rule that requires a number of fields out of a list.
func (d directive) oneOf() ([]directive, error) {
	fields, err := markList(d.value)
	if err != nil || d.value == "" {
		return nil, errors.Join(err, errors.New("its fields are missing"))
	}
	has := make([]string, len(fields))
	for i, f := range fields {
		if has[i] = "has(self." + f + ")"; d.key != ">=" {
			has[i] = "(" + has[i] + "?1:0)"
		}
	}
	expression := strings.Join(has, "||")
	if d.key != ">=" {
		expression = strings.Join(has, "+") + " " + d.key + " 1"
	}
	message := map[string]string{
		"<=": "at most one of the fields in %v may be set",
		"==": "exactly one of the fields in %v must be set",
		">=": "at least one of the fields in %v must be set",
	}[d.key]
	rule, text := d, d
	rule.key, rule.value = "rule", expression
	text.key, text.value = "message", fmt.Sprintf(message, fields)
	return []directive{rule, text}, nil
}

// markDirectives returns the effect of markers on a schema. It calls fail for each wrong
// marker.
func markDirectives(marks []mark, fail func(mark, error)) (list []directive) {
	for _, m := range marks {
		d, err := m.directives()
		if err != nil {
			fail(m, err)
			continue
		}
		list = append(list, d...)
	}
	return list
}

// marked applies a directive that only a marker can express.
func (s *Schema) marked(d directive) error {
	yes := func() (bool, error) {
		if !d.given {
			return true, nil
		}
		v, err := strconv.ParseBool(d.value)
		if err != nil {
			err = errors.New("want true or false")
		}
		return v, err
	}
	var err error
	switch d.key {
	case "openMin":
		s.ExclusiveMinimum, err = yes()
	case "openMax":
		s.ExclusiveMaximum, err = yes()
	case "anyFormat":
		s.Format = d.value // servers ignore unknown formats
	case "title":
		s.Title = d.value
	case "notEmpty":
		s.requireContent()
	case "structType":
		s.MapType = d.value
		return errors.Join(s.onlyFor("object"), oneOfWords(d.value, "atomic", "granular"))
	case "type":
		if t := s.typeText(); t != d.value && s.Type != d.value {
			return fmt.Errorf("the Go type is encoded as %s", t)
		}
	}
	return err
}

// requireContent gives a string, list, map or struct a minimum of 1, unless it has a minimum.
func (s *Schema) requireContent() {
	one := int64(1)
	least := map[string]**int64{"string": &s.MinLength, "array": &s.MinItems, "object": &s.MinProperties}[s.Type]
	if least != nil && *least == nil {
		*least = &one
	}
}

func oneOfWords(word string, words ...string) error {
	if slices.Contains(words, word) {
		return nil
	}
	return fmt.Errorf("want %s", strings.Join(words, " or "))
}
