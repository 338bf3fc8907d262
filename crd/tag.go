package crd

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pintle-go/pintle/crd/internal/nearest"
	"github.com/pintle-go/pintle/crd/internal/source"
	"github.com/pintle-go/pintle/crd/internal/tag"
	"github.com/pintle-go/pintle/internal/crdtag"
)

// directive is one part of a crd tag: key=value, or a key alone.
type directive struct {
	// path leads into the field: items to the elements of a list, values to those of a
	// map.
	path  []string
	key   string
	value string
	// given is true if there is a value, even an empty one.
	given bool
	// mark is the marker of the directive, or nil if it is from the field's own tag.
	mark *source.Marker
}

func (d directive) String() string {
	if d.mark != nil {
		return d.mark.String()
	}
	s := strings.Join(append(slices.Clone(d.path), d.key), ".")
	if !d.given {
		return s
	}
	return s + "=" + tag.Quote(d.value)
}

// use says how often a key may stand in a tag, and whether it has a value.
type use uint8

const (
	bare       use = 1 << iota // without a value
	valued                     // with a value
	repeatable                 // more than once
)

// keys are the keys of crd tags.
var keys = map[string]use{
	"min": valued, "max": valued, "exclusiveMin": bare | valued, "exclusiveMax": bare | valued, "multipleOf": valued,
	"minLength": valued, "maxLength": valued, "pattern": valued, "format": valued,
	"minItems": valued, "maxItems": valued, "minProperties": valued, "maxProperties": valued,
	"enum": valued, "default": valued, "nullable": bare, "required": bare, "optional": bare,
	"type": valued, "schemaless": bare, "notEmpty": bare, "preserveUnknownFields": bare, "embeddedResource": bare,
	"listType": valued, "listMapKey": valued, "mapType": valued,
	"immutable": bare, "title": valued, "description": valued, "deprecated": bare | valued,
	"rule": valued | repeatable, "message": valued | repeatable, "messageExpression": valued | repeatable,
	"reason": valued | repeatable, "fieldPath": valued | repeatable, "optionalOldSelf": bare | repeatable,
	"column": bare | valued, "columnPath": valued, "columnType": valued, "columnFormat": valued, "priority": valued,
	"selectable": bare,
}

// keyNames returns the keys in alphabetical order.
func keyNames() []string {
	names := make([]string, 0, len(keys))
	for k := range keys {
		names = append(names, k)
	}
	slices.Sort(names)
	return names
}

const (
	inItems  = source.Items
	inValues = source.Values
)

// parseTag parses a crd tag, whose names are { ( "items" | "values" ) "." } key.
func parseTag(text string) (list []directive, err error) {
	seen := map[string]bool{}
	err = crdtag.Parse(text, func(part crdtag.Directive) error {
		path := strings.Split(part.Name, ".")
		d := directive{path: path[:len(path)-1], key: path[len(path)-1], value: part.Value, given: part.Given}
		if err := d.check(list); err != nil {
			return err
		}
		if seen[part.Name] && keys[d.key]&repeatable == 0 {
			return fmt.Errorf("%s is given twice", part.Name)
		}
		seen[part.Name] = true
		list = append(list, d)
		return nil
	})
	return list, err
}

// schemaNames are names of OpenAPI and kubebuilder for keys, in lower case.
var schemaNames = map[string]string{
	"minimum": "min", "maximum": "max", "exclusiveminimum": "exclusiveMin", "exclusivemaximum": "exclusiveMax",
}

// check checks a directive by itself and against the directives before it.
func (d directive) check(before []directive) error {
	for _, p := range d.path {
		if p != inItems && p != inValues {
			return fmt.Errorf("%s: %q is neither %s nor %s", d, p, inItems, inValues)
		}
	}
	use, known := keys[d.key]
	switch {
	case !known:
		hint := nearest.DidYouMean(cmp.Or(schemaNames[strings.ToLower(d.key)], d.key), keyNames())
		if hint == "" && len(before) > 0 && before[len(before)-1].given {
			hint = fmt.Sprintf(" (a value with a comma is quoted: %s='…')", before[len(before)-1].key)
		}
		return fmt.Errorf("unknown key %q%s", d.key, hint)
	case d.given && use&valued == 0:
		return fmt.Errorf("%s has no value, but %q is given", d.key, d.value)
	case !d.given && use&bare == 0:
		return fmt.Errorf("%s needs a value: %s=…", d.key, d.key)
	case d.given && d.value == "" && d.key != "default":
		return fmt.Errorf("the value of %s is empty", d.key)
	}
	return nil
}
