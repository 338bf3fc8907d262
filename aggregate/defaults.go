package aggregate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
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
	before, beforeErr := convert[map[string]any](object)
	if err := set(ctx, object); err != nil {
		return err
	}
	after, afterErr := convert[map[string]any](object)
	if err := cmp.Or(beforeErr, afterErr); err != nil {
		return err
	}
	takeChanges(u.Object, *before, *after)
	return nil
}

// takeChanges makes in object the changes from before to after. No library does: a merge patch has
// numbers as float64, and removes what is null.
func takeChanges(object, before, after map[string]any) {
	maps.DeleteFunc(object, func(name string, _ any) bool {
		_, was := before[name]
		_, is := after[name]
		return was && !is
	})
	for name, value := range after {
		is, isMap := value.(map[string]any)
		was, wasMap := before[name].(map[string]any)
		within, _ := object[name].(map[string]any)
		switch {
		case reflect.DeepEqual(before[name], value):
		case !isMap || !wasMap:
			object[name] = value
		case within == nil:
			within = map[string]any{}
			object[name] = within
			fallthrough
		default:
			takeChanges(within, was, is)
		}
	}
}

// decode returns the object as the program's type.
func decode[T any](u *unstructured.Unstructured) (*T, error) {
	if u == nil {
		return nil, nil
	}
	return convert[T](u.Object)
}

// convert returns the value with the same JSON. Numbers in maps are as Unstructured has them.
func convert[T any](from any) (*T, error) {
	data, err := json.Marshal(from)
	if err != nil {
		return nil, fmt.Errorf("encode object: %w", err)
	}
	to := new(T)
	if err := json.Unmarshal(data, to); err != nil {
		return nil, fmt.Errorf("decode object: %w", err)
	}
	return to, nil
}
