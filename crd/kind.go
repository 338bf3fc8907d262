package crd

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/pintle-go/pintle/kube"
)

// kindMarks holds the markers of a kind's type that are about the kind as a whole.
type kindMarks struct {
	plural, singular     string
	scope                kube.Scope
	shortNames, category []string
	columns              []Column
	selectable           []SelectableField
	scale                *Scale
	unserved, stored     bool
	deprecated           *string
	labels, annotations  map[string]string
}

// readKind reads the markers of a kind's type.
func readKind(t reflect.Type, marks []mark) (k kindMarks, err error) {
	var errs []error
	for _, m := range marks {
		p, ok, err := m.parse()
		if err != nil || !ok || markKeys[p.name] != "" {
			continue // it is read with the schema
		}
		args, err := arguments(p.args)
		for _, a := range args {
			if err == nil {
				err = k.argument(p.name, a)
			}
		}
		if err == nil {
			err = k.flag(p.name, args)
		}
		if err != nil {
			errs = append(errs, &FieldError{Type: docName(t), Err: fmt.Errorf("%s: %w", m, err)})
		}
	}
	return k, errors.Join(errs...)
}

// flag reads a marker that has an effect without arguments. Its arguments are already in
// the last entry of its sort.
func (k *kindMarks) flag(name string, args []argument) error {
	missing := func(names ...string) error {
		for _, n := range names {
			if !slices.ContainsFunc(args, func(a argument) bool { return strings.EqualFold(a.name, n) }) {
				return fmt.Errorf("its argument %s is missing", n)
			}
		}
		return nil
	}
	switch name {
	case "kubebuilder:unservedversion":
		k.unserved = true
	case "kubebuilder:storageversion":
		k.stored = true
	case "kubebuilder:deprecatedversion":
		if k.deprecated == nil {
			k.deprecated = new(string)
		}
	case "kubebuilder:skipversion":
		return errors.New("the marker excludes this version from definitions: do not build a definition from it")
	case "kubebuilder:subresource:scale":
		return missing("specpath", "statuspath")
	case "kubebuilder:printcolumn":
		c := Column{}
		for _, a := range args {
			if err := c.argument(a); err != nil {
				return err
			}
		}
		k.columns = append(k.columns, c)
		return missing("name", "type", "JSONPath")
	case "kubebuilder:selectablefield":
		return missing("JSONPath")
	}
	return nil
}

// argument reads one argument of a marker.
func (k *kindMarks) argument(marker string, a argument) (err error) {
	switch marker + " " + a.name {
	case "kubebuilder:resource path":
		k.plural = a.value
	case "kubebuilder:resource singular":
		k.singular = a.value
	case "kubebuilder:resource shortName":
		k.shortNames, err = markList(a.raw)
	case "kubebuilder:resource categories":
		k.category, err = markList(a.raw)
	case "kubebuilder:resource scope":
		k.scope = kube.Scope(a.value)
		err = oneOfWords(a.value, string(kube.Namespaced), string(kube.ClusterScoped))
	case "kubebuilder:subresource:scale specpath":
		k.scaled().SpecReplicasPath = a.value
	case "kubebuilder:subresource:scale statuspath":
		k.scaled().StatusReplicasPath = a.value
	case "kubebuilder:subresource:scale selectorpath":
		k.scaled().LabelSelectorPath = a.value
	case "kubebuilder:deprecatedversion warning":
		k.deprecated = &a.value
	case "kubebuilder:selectablefield JSONPath":
		k.selectable = append(k.selectable, SelectableField{a.value})
	case "kubebuilder:metadata annotations":
		k.annotations, err = addPairs(k.annotations, a.raw)
	case "kubebuilder:metadata labels":
		k.labels, err = addPairs(k.labels, a.raw)
	default:
		if marker != "kubebuilder:printcolumn" { // printcolumn is read as a whole
			err = fmt.Errorf("it has no argument %s", a.name)
		}
	}
	return err
}

func (k *kindMarks) scaled() *Scale {
	if k.scale == nil {
		k.scale = &Scale{}
	}
	return k.scale
}

// argument reads one argument of a printcolumn.
func (c *Column) argument(a argument) error {
	switch strings.ToLower(a.name) {
	case "name":
		c.Name = a.value
	case "type":
		c.Type = a.value
	case "jsonpath":
		c.JSONPath = a.value
	case "description":
		c.Description = a.value
	case "format":
		c.Format = a.value
	case "priority":
		n, err := strconv.ParseInt(a.value, 10, 32)
		if err != nil {
			return errors.New("priority is not an integer")
		}
		c.Priority = int32(n)
	default:
		return fmt.Errorf("it has no argument %s", a.name)
	}
	return nil
}

// addPairs reads key=value;key=value.
func addPairs(into map[string]string, text string) (map[string]string, error) {
	pairs, err := markList(text)
	if err != nil {
		return nil, err
	}
	if into == nil {
		into = make(map[string]string)
	}
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not key=value", pair)
		}
		into[key] = value
	}
	return into, nil
}

// apply fills in the fields that kind and options leave empty. A marker that contradicts
// the kind is an error, because clients use the kind.
func (k *kindMarks) apply(kind *kube.Kind, o *Options) error {
	switch {
	case k.plural != "" && kind.Plural != "" && k.plural != kind.Plural:
		return fmt.Errorf("the marker +kubebuilder:resource says path=%s, the kind %s", k.plural, kind.Plural)
	case k.scope != "" && kind.Scope != "" && k.scope != kind.Scope:
		return fmt.Errorf("the marker +kubebuilder:resource says scope=%s, the kind %s", k.scope, kind.Scope)
	}
	if kind.Plural == "" {
		kind.Plural = k.plural
	}
	if kind.Scope == "" {
		kind.Scope = k.scope
	}
	if o.Singular == "" {
		o.Singular = k.singular
	}
	if len(o.ShortNames) == 0 {
		o.ShortNames = k.shortNames
	}
	if len(o.Categories) == 0 {
		o.Categories = k.category
	}
	if o.Scale == nil {
		o.Scale = k.scale
	}
	o.NotServed = o.NotServed || k.unserved
	o.Columns = append(slices.Clone(k.columns), o.Columns...)
	return nil
}
