package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// YAML returns all objects, for kubectl apply --server-side: a namespace, the
// definitions, and the rest in an order in which they can be created. The same operator
// always gives the same text.
func (o Operator) YAML() ([]byte, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, o.wrap(err)
	}
	parts, err := o.parts()
	if err != nil {
		return nil, o.wrap(err)
	}
	var documents [][]byte
	add := func(object any) error {
		tree, err := treeOf(object)
		if err != nil {
			return err
		}
		doc, err := yaml.Marshal(tree)
		documents = append(documents, doc)
		return err
	}
	// A namespace that every cluster has gets no label of ours.
	if o.Install.Namespace != "default" && !strings.HasPrefix(o.Install.Namespace, "kube-") {
		if err := add(o.namespace()); err != nil {
			return nil, o.wrap(err)
		}
	}
	for _, d := range o.serving().Definitions(o.place(), o.Definitions) {
		doc, err := d.YAML()
		if err != nil {
			return nil, o.wrap(err)
		}
		documents = append(documents, doc)
	}
	for _, p := range parts {
		for _, object := range p.objects {
			if err := add(object); err != nil {
				return nil, o.wrap(err)
			}
		}
	}
	return bytes.Join(documents, []byte("---\n")), nil
}

// treeOf returns an object as JSON has it, without the zero values of fields that the
// program did not set.
func treeOf(object any) (map[string]any, error) {
	data, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", object, err)
	}
	var tree map[string]any
	if err := json.Unmarshal(data, &tree); err != nil {
		return nil, fmt.Errorf("decode %T: %w", object, err)
	}
	delete(tree, "status")
	prune(tree, isNative(object))
	return tree, nil
}

// isNative reports whether an object has a type of k8s.io/api.
func isNative(object any) bool {
	t := reflect.TypeOf(object)
	if t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t != nil && strings.HasPrefix(t.PkgPath(), "k8s.io/api/")
}

// prune removes nulls. Of the types of k8s.io/api it also removes the empty objects that Go writes of
// structs that nobody set. Other empty objects have a meaning: a selector of all pods, an issuer's kind.
func prune(v any, native bool) {
	structs := []string{"metadata", "spec", "status", "resources", "strategy", "updateStrategy"}
	switch v := v.(type) {
	case map[string]any:
		for key, field := range v {
			prune(field, native)
			m, ok := field.(map[string]any)
			unset := native && ok && len(m) == 0 && slices.Contains(structs, key)
			if field == nil || unset {
				delete(v, key)
			}
		}
	case []any:
		for _, item := range v {
			prune(item, native)
		}
	}
}
