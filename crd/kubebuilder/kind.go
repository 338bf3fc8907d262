package kubebuilder

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/pintle-go/pintle/crd"
)

// kinds are the markers that are about a kind as a whole.
var kinds = []string{
	"kubebuilder:resource", "kubebuilder:printcolumn", "kubebuilder:subresource:scale", "kubebuilder:subresource:status",
	"kubebuilder:selectablefield", "kubebuilder:metadata", "kubebuilder:storageversion", "kubebuilder:unservedversion",
	"kubebuilder:deprecatedversion", "kubebuilder:skipversion",
}

// change applies a marker of a kind to the definition, which has one version.
func (m marker) change(d *crd.Definition) error {
	v, n := &d.Spec.Versions[0], &d.Spec.Names
	v.Subresources = cmp.Or(v.Subresources, new(crd.Subresources))
	if m.value != "" && m.args == "" {
		return errors.New("it has arguments and no value of its own")
	}
	switch m.name {
	case "kubebuilder:resource":
		return fill(m.args, map[string]any{"path": &n.Plural, "singular": &n.Singular, "shortName": &n.ShortNames,
			"categories": &n.Categories, "scope": (*string)(&d.Spec.Scope)})
	case "kubebuilder:printcolumn":
		var c crd.Column
		err := fill(m.args, map[string]any{"name": &c.Name, "type": &c.Type, "JSONPath": &c.JSONPath,
			"description": &c.Description, "format": &c.Format, "priority": &c.Priority}, "name", "type", "JSONPath")
		v.Columns = append(v.Columns, c)
		return err
	case "kubebuilder:subresource:scale":
		s := cmp.Or(v.Subresources.Scale, new(crd.Scale))
		v.Subresources.Scale = s
		return fill(m.args, map[string]any{"specpath": &s.SpecReplicasPath, "statuspath": &s.StatusReplicasPath,
			"selectorpath": &s.LabelSelectorPath}, "specpath", "statuspath")
	case "kubebuilder:selectablefield":
		v.SelectableFields = append(v.SelectableFields, crd.SelectableField{})
		return fill(m.args, map[string]any{"JSONPath": &v.SelectableFields[len(v.SelectableFields)-1].JSONPath}, "JSONPath")
	case "kubebuilder:metadata":
		return fill(m.args, map[string]any{"labels": &d.Labels, "annotations": &d.Annotations})
	case "kubebuilder:deprecatedversion":
		v.Deprecated = true
		return fill(m.args, map[string]any{"warning": &v.DeprecationWarning})
	case "kubebuilder:subresource:status":
		v.Subresources.Status = new(struct{})
	case "kubebuilder:storageversion":
		v.Storage = true
	case "kubebuilder:unservedversion":
		v.Served = false
	case "kubebuilder:skipversion":
		return errors.New("the marker excludes this version from definitions: do not build a definition from it")
	}
	return fill(m.args, nil)
}

// fill reads the arguments of a marker, name=value,name=value, into its variables. A value may stand in " or ` quotes.
// A variable that has a value is from the same marker, here or in a line above: only maps may have more than one.
func fill(text string, into map[string]any, required ...string) error {
	parts, err := split(text, ",")
	given := map[string]bool{}
	for _, part := range parts {
		name, raw, ok := strings.Cut(part, "=")
		if !ok {
			return fmt.Errorf("%q is not name=value", part)
		}
		name, raw = strings.TrimSpace(name), strings.TrimSpace(raw)
		before := reflect.Indirect(reflect.ValueOf(into[name]))
		if given[name] || before.IsValid() && before.Kind() != reflect.Map && !before.IsZero() {
			return fmt.Errorf("%s is given twice", name)
		}
		given[name] = true
		switch into := into[name].(type) {
		case *string:
			*into, err = unquoted(raw)
		case *int32, *bool:
			if err = json.Unmarshal([]byte(raw), into); err != nil {
				err = fmt.Errorf("%s cannot be %s", name, raw)
			}
		case *[]string:
			*into, err = list(raw)
		case *map[string]string:
			var pairs []string
			pairs, err = list(raw)
			for _, pair := range pairs {
				if *into == nil {
					*into = make(map[string]string)
				}
				key, value, ok := strings.Cut(pair, "=")
				if (*into)[key] = value; !ok {
					err = fmt.Errorf("%q is not name=value", pair)
				}
			}
		default:
			err = fmt.Errorf("it has no argument %s", name)
		}
		if err != nil {
			return err
		}
	}
	for _, name := range required {
		if err == nil && !given[name] {
			return fmt.Errorf("its argument %s is missing", name)
		}
	}
	return err
}
