package aggregate

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
)

// setDefaults changes the fields of u that set changes in the program's type, and no other. Fields
// that the type encodes although the client left them out stay away.
func setDefaults[T any](ctx context.Context, u *unstructured.Unstructured, set func(context.Context, *T) error) error {
	object, err := decode[T](u)
	if err != nil {
		return nil //nolint:nilerr // it does not fit the definition either, which says so better
	}
	before, err := content(object)
	if err != nil {
		return err
	}
	if err := set(ctx, object); err != nil {
		return err
	}
	after, err := content(object)
	if err != nil {
		return err
	}
	takeChanges(u.Object, before, after)
	return nil
}

// content returns the JSON of an object as maps, with numbers as Unstructured has them.
func content(object any) (map[string]any, error) {
	data, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encode object: %w", err)
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, fmt.Errorf("decode object: %w", err)
	}
	return fields, nil
}

// takeChanges makes in object the changes from before to after.
func takeChanges(object, before, after map[string]any) {
	for name, value := range after {
		was, had := before[name]
		if had && reflect.DeepEqual(was, value) {
			continue
		}
		within, isMap := value.(map[string]any)
		wasWithin, wasMap := was.(map[string]any)
		if isMap && wasMap {
			child, ok := object[name].(map[string]any)
			if !ok {
				child = map[string]any{}
			}
			takeChanges(child, wasWithin, within)
			object[name] = child
			continue
		}
		object[name] = value
	}
	for name := range before {
		if _, has := after[name]; !has {
			delete(object, name)
		}
	}
}
