package crd

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// reserved words of CEL must be escaped where they name fields. See the
// documentation of x-kubernetes-validations.
var reserved = []string{"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function",
	"if", "import", "let", "loop", "package", "namespace", "return"}

var escapes = strings.NewReplacer("__", "__underscores__", ".", "__dot__", "-", "__dash__", "/", "__slash__")

// celName returns how a rule in CEL names a field.
func celName(name string) string {
	if slices.Contains(reserved, name) {
		return "__" + name + "__"
	}
	return escapes.Replace(name)
}

var (
	celStrings = regexp.MustCompile(`"(\\.|[^"\\])*"|'(\\.|[^'\\])*'`)
	oldSelf    = regexp.MustCompile(`\boldSelf\b`)
)

// usesOldSelf reports whether a rule compares with the object before.
func usesOldSelf(rule string) bool {
	return oldSelf.MatchString(celStrings.ReplaceAllString(rule, `""`))
}

// checkTransitions finds rules that compare with the object before where the
// server cannot tell which element was which.
func (b *builder) checkTransitions(s *Schema, lost bool) {
	if s == nil {
		return
	}
	if e := b.transitions[s]; e != nil && lost {
		e.Err = errors.New("oldSelf is not known in a list (unless its listType is map) or in an atomic map, so that nothing there is immutable by itself: say it of the list")
		b.errs = append(b.errs, e)
		delete(b.transitions, s)
	}
	b.checkTransitions(s.Items, lost || s.ListType != "map")
	below := lost || s.MapType == "atomic"
	b.checkTransitions(s.values(), below)
	for _, p := range s.Properties {
		b.checkTransitions(p, below)
	}
}

// mergeKey are the keys of lists in k8s.io/api where the patchMergeKey of the
// field is not the whole key, or where the key has a default: what the markers
// +listMapKey and +default say in the source and no program can see.
type mergeKey struct {
	keys     []string
	defaults map[string]string
}

var mergeKeysOf = map[string]mergeKey{
	"k8s.io/api/core/v1.ContainerPort":            {[]string{"containerPort", "protocol"}, map[string]string{"protocol": `"TCP"`}},
	"k8s.io/api/core/v1.ServicePort":              {[]string{"port", "protocol"}, map[string]string{"protocol": `"TCP"`}},
	"k8s.io/api/core/v1.TopologySpreadConstraint": {keys: []string{"topologyKey", "whenUnsatisfiable"}},
	"k8s.io/api/core/v1.LocalObjectReference":     {[]string{"name"}, map[string]string{"name": `""`}},
}

// mergeKeys makes a list with a patchMergeKey a map by that key, if the key is
// sure to be there.
func mergeKeys(s *Schema, m member) {
	key := m.Tag.Get("patchMergeKey")
	if key == "" || s.ListType != "" || s.Type != "array" || s.Items.Type != "object" || s.Items.Nullable {
		return
	}
	t := m.Type.Elem()
	k, special := mergeKeysOf[t.PkgPath()+"."+t.Name()]
	if !special {
		k.keys = []string{key}
	}
	for name, value := range k.defaults {
		if p := s.Items.Properties[name]; p != nil && p.Default == nil {
			p.Default = []byte(value)
		}
	}
	if s.mapKeys(k.keys) == nil {
		s.ListType, s.ListMapKeys = "map", k.keys
	}
}

// mapKeys returns what is wrong with keys for a list, or nil.
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
			return fmt.Errorf("the elements have no field %s for a map key%s", key, didYouMean(key, names))
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
