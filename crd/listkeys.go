package crd

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pintle-go/pintle/crd/internal/nearest"
)

// mergeKeys makes a list with a patchMergeKey a map by that key, if every element is sure
// to have the key. The table has the lists of Kubernetes' own types.
func mergeKeys(s *Schema, m member) {
	key := m.Tag.Get("patchMergeKey")
	if key == "" || s.ListType != "" || s.Type != "array" || s.Items.Type != "object" || s.Items.Nullable {
		return
	}
	if keys := []string{key}; s.mapKeys(keys) == nil {
		s.ListType, s.ListMapKeys = "map", keys
	}
}

// mapKeys returns an error if keys cannot be the keys of a list, or nil.
func (s *Schema) mapKeys(keys []string) error {
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
