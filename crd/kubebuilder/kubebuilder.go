// Package kubebuilder reads the markers of controller-gen, so that API packages that other
// programs generate from work as they are:
//
//	//go:embed types.go
//	var source embed.FS
//
//	var definition = crd.Of[Shift](crd.Options{Source: source, Markers: kubebuilder.Tags})
//
// Package crd finds the markers in the comments of the source when the program runs, and
// [Tags] turns each into a crd tag: +kubebuilder:validation:Minimum=1 into min=1.
//
// The markers are those of https://book.kubebuilder.io/reference/markers: +kubebuilder:validation:…,
// +kubebuilder:default, +listType and similar markers of fields and types; +kubebuilder:resource, :printcolumn,
// :subresource:scale, :selectablefield, :deprecatedversion, :unservedversion and :metadata of the kind;
// +kubebuilder:validation:Optional of the package. Markers that only other generators read have no effect (object,
// rbac, webhook, ac, example, externalDocs, docs-gen, k8s:…-gen). Every other marker of kubebuilder is an error with
// its file and line, and so is a marker that says nothing: one that is given twice, whose name is misspelt, whose
// value is not what it takes, or that belongs to no type or field. It stands in the comment above the field, type or
// package, in the closest comment above that, or at the end of the field's line. [crd.Options].Source must have the
// file of every type of its packages. As in controller-gen the markers of an alias of a named type, and those of the
// type of a map's keys, have no effect. Status is a subresource of every type with a status, with or without a marker.
package kubebuilder

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/crd/internal/nearest"
	"github.com/pintle-go/pintle/crd/internal/tag"
)

const valid = "kubebuilder:validation:"

// keys maps the markers of fields and types to keys of crd tags, or to comparisons of a number of fields.
var keys = map[string]string{
	valid + "Maximum": "max", valid + "Minimum": "min", valid + "ExclusiveMaximum": "exclusiveMax",
	valid + "ExclusiveMinimum": "exclusiveMin", valid + "MultipleOf": "multipleOf",
	valid + "MinProperties": "minProperties", valid + "MaxProperties": "maxProperties",
	valid + "MinLength": "minLength", valid + "MaxLength": "maxLength", valid + "Pattern": "pattern",
	valid + "Format": "format", valid + "MinItems": "minItems", valid + "MaxItems": "maxItems",
	valid + "UniqueItems": "uniqueItems", valid + "Enum": "enum", valid + "Type": "type",
	valid + "XIntOrString": "type=int-or-string", valid + "XPreserveUnknownFields": "preserveUnknownFields",
	valid + "XEmbeddedResource": "embeddedResource", valid + "EmbeddedResource": "embeddedResource",
	valid + "Schemaless": "schemaless", valid + "XValidation": "rule", valid + "AtMostOneOf": "<=",
	valid + "ExactlyOneOf": "==", valid + "AtLeastOneOf": ">=", valid + "Required": "required",
	valid + "Optional": "optional", "kubebuilder:title": "title",
	"kubebuilder:pruning:PreserveUnknownFields": "preserveUnknownFields", "required": "required",
	"optional": "optional", "k8s:required": "required", "k8s:optional": "optional", "nullable": "nullable",
	"kubebuilder:default": "default", "default": "default", "listType": "listType", "listMapKey": "listMapKey",
	"mapType": "mapType", "structType": "mapType", "k8s:listType": "listType", "k8s:listMapKey": "listMapKey",
	"k8s:immutable": "immutable", "k8s:maxItems": "maxItems", "k8s:minimum": "min", "k8s:maximum": "max",
}

// flags are the keys that need no value.
var flags = []string{"preserveUnknownFields", "embeddedResource", "schemaless", "required", "optional", "nullable",
	"immutable", "exclusiveMin", "exclusiveMax", "type=int-or-string"}

// foreign are the markers for other generators and for readers of documentation.
var foreign = []string{"object", "ac", "rbac", "webhook", "webhookconfiguration", "scaffold", "skip", "example",
	"externalDocs", "docs-gen", "doc"}

// ranked are markers that contradict one another, in controller-gen's order: the first one has effect.
var ranked = [][]string{
	{valid + "Optional", valid + "Required", "optional", "k8s:optional", "required", "k8s:required"},
	{"kubebuilder:default", "default"},
}

// Tags is for [crd.Options].Markers. For each marker of a field or type it yields a crd tag or an error. The tag is
// empty if the marker says nothing about the values. A marker of a kind as a whole changes the definition, which is nil
// unless the markers are those of the kind's type.
func Tags(markers []string, kind *crd.Definition) iter.Seq2[string, error] {
	return func(yield func(tag string, err error) bool) {
		all := make([]marker, len(markers))
		for i, text := range markers {
			all[i] = parse(text)
		}
		for _, m := range all {
			text, err := m.tag(kind)
			if m.outranked(all) {
				text = map[string]string{"k8s:required": m.path + "notEmpty"}[m.name]
				if keys[m.name] == "default" {
					err = nil // it may name a constant
				}
			}
			if !yield(text, err) {
				return
			}
		}
	}
}

// marker is a marker in its parts: name=value, or name:argument=value,argument=value.
type marker struct {
	path  string // items., for the elements of a list
	name  string
	value string
	args  string
}

func parse(text string) (m marker) {
	if strings.HasPrefix(text, "k8s:") {
		text, _, _ = strings.Cut(text, "#") // Kubernetes' own markers may have a comment
	}
	m.name, m.value, _ = strings.Cut(text, "=")
	// A colon may stand before the sign if the value begins with a brace.
	m.name, m.value = strings.TrimSuffix(strings.TrimRight(m.name, " \t"), ":"), strings.TrimSpace(m.value)
	for strings.HasPrefix(m.name, valid+"items:") {
		m.name, m.path = valid+m.name[len(valid+"items:"):], m.path+"items."
	}
	known := func(name string) bool { return keys[name] != "" || slices.Contains(kinds, name) }
	if i := strings.LastIndex(m.name, ":"); i >= 0 && !known(m.name) && known(m.name[:i]) {
		m.name, m.args = m.name[:i], m.name[i+1:]+"="+m.value
	}
	return m
}

// isForeign reports whether a marker is for other generators. One that is nearly one of these, or has text behind the
// name, is not; but a line of a list can begin with a plus sign and a space.
func (m marker) isForeign() bool {
	if strings.HasPrefix(m.name, "k8s:") {
		return strings.Contains(m.name, "-gen")
	}
	name, own := strings.CutPrefix(m.name, "kubebuilder:")
	name, _, _ = strings.Cut(name, ":")
	if own {
		return slices.Contains(foreign, name)
	}
	text, near := strings.TrimSpace(m.name), []string{"kubebuilder"}
	if text == m.name {
		near = slices.AppendSeq(near, maps.Keys(keys))
	}
	return nearest.DidYouMean(text[:strings.IndexAny(text+" ", " :/-.,;#(")], near) == ""
}

func (m marker) outranked(all []marker) bool {
	return slices.ContainsFunc(ranked, func(names []string) bool {
		own := slices.Index(names, m.name)
		return own > 0 && slices.ContainsFunc(all, func(o marker) bool { return slices.Contains(names[:own], o.name) })
	})
}

// tag returns the tag of a marker. A marker of a kind changes the kind.
func (m marker) tag(kind *crd.Definition) (string, error) {
	isKind := slices.Contains(kinds, m.name)
	switch {
	case keys[m.name] != "":
		return m.constraint(keys[m.name])
	case isKind && kind == nil:
		return "", errors.New("it belongs to the type of a kind")
	case isKind:
		return "", m.change(kind)
	case m.isForeign():
		return "", nil
	}
	names := append(slices.Sorted(maps.Keys(keys)), kinds...)
	return "", errors.New("the marker is not known" + nearest.DidYouMean(m.name, names))
}

// constraint returns the tag with a key.
func (m marker) constraint(key string) (string, error) {
	isFlag, value := slices.Contains(flags, key), m.value
	var err error
	switch {
	case key == "rule":
		return m.rule()
	case m.args != "":
		err = errors.New("it has one value and no arguments")
	case key == "<=", key == "==", key == ">=":
		return m.count(key)
	case value == "" && !isFlag:
		err = errors.New("its value is missing")
	case key == "uniqueItems":
		err = errors.New("servers forbid uniqueItems: use listType=set")
	case strings.HasPrefix(key, "exclusive") && value == "false":
		return "", nil
	case isFlag && value != "" && value != "true":
		err = fmt.Errorf("it cannot be %s: leave it out", value)
	case m.name == "k8s:required":
		key = "required," + m.path + "notEmpty"
	case key == "enum":
		value, err = enum(value)
	case key == "default":
		value, err = valueJSON(value)
	case key == "pattern", key == "title", key == "format", strings.HasSuffix(key, "ype"), key == "listMapKey":
		if value, err = unquoted(value); value == "" {
			return "", err
		}
	}
	if isFlag || err != nil {
		return m.path + key, err
	}
	return m.path + key + "=" + tag.Quote(value), nil
}

// rule returns the tag of an XValidation marker.
func (m marker) rule() (string, error) {
	rule, optional := "", false
	var details [4]string
	err := fill(m.args, map[string]any{"rule": &rule, "message": &details[0], "messageExpression": &details[1],
		"reason": &details[2], "fieldPath": &details[3], "optionalOldSelf": &optional}, "rule")
	text := m.path + "rule=" + tag.Quote(rule)
	for i, name := range []string{"message", "messageExpression", "reason", "fieldPath"} {
		if details[i] != "" {
			text += "," + m.path + name + "=" + tag.Quote(details[i])
		}
	}
	if optional {
		text += "," + m.path + "optionalOldSelf"
	}
	return text, err
}

// count returns the rule that requires a number of fields out of a list.
func (m marker) count(comparison string) (string, error) {
	fields, err := list(m.value)
	if err != nil || m.value == "" {
		return "", errors.Join(err, errors.New("its fields are missing"))
	}
	has := make([]string, len(fields))
	for i, f := range fields {
		if has[i] = "has(self." + f + ")"; comparison != ">=" {
			has[i] = "(" + has[i] + "?1:0)"
		}
	}
	rule := strings.Join(has, "||")
	if comparison != ">=" {
		rule = strings.Join(has, "+") + " " + comparison + " 1"
	}
	message := map[string]string{"<=": "at most one of the fields in %v may be set",
		"==": "exactly one of the fields in %v must be set", ">=": "at least one of the fields in %v must be set"}[comparison]
	return m.path + "rule=" + tag.Quote(rule) + "," + m.path + "message=" + tag.Quote(fmt.Sprintf(message, fields)), nil
}
