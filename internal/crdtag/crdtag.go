// Package crdtag reads the tag crd of fields. Package crd makes definitions of it, and package kube
// writes objects that these definitions accept.
package crdtag

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// Directive is a part of a tag: items.min=1 has the name items.min and the value 1.
type Directive struct {
	Name, Value string
	Given       bool // it has a value
}

// Optional reports whether a field is optional by its tag crd, in spite of its tag json.
func Optional(tag reflect.StructTag) (optional bool) {
	_ = Parse(tag.Get("crd"), func(d Directive) error { // package crd tells of the mistakes
		optional = optional || d.Name == "optional" || d.Name == "default"
		return nil
	})
	return optional
}

// Parse calls each with the directives of a tag, up to an error:
//
//	tag       = directive { "," directive }
//	directive = name [ "=" value ]
//	value     = text without a comma | "'" anything, with ” for a quote "'"
func Parse(text string, each func(Directive) error) error {
	for rest, more := text, true; more; {
		end := strings.IndexAny(rest, ",=")
		if end < 0 {
			end = len(rest)
		}
		d := Directive{Name: strings.TrimSpace(rest[:end])}
		if d.Name == "" {
			return errors.New("a key is missing: it is written key=value,key=value")
		}
		rest = rest[end:]
		if value, ok := strings.CutPrefix(rest, "="); ok {
			var err error
			d.Given = true
			if d.Value, rest, err = parseValue(value); err != nil {
				return fmt.Errorf("%s: %w", d.Name, err)
			}
		}
		rest, more = strings.CutPrefix(rest, ",")
		if err := each(d); err != nil {
			return err
		}
	}
	return nil
}

// parseValue cuts a value off a tag. The rest is empty or begins with a comma.
func parseValue(s string) (value, rest string, err error) {
	quoted, ok := strings.CutPrefix(strings.TrimLeft(s, " "), "'")
	if !ok {
		value, _, _ = strings.Cut(s, ",")
		return strings.TrimSpace(value), s[len(value):], nil
	}
	var b strings.Builder
	for {
		before, after, closed := strings.Cut(quoted, "'")
		if !closed {
			return "", "", errors.New("the closing ' is missing")
		}
		b.WriteString(before)
		if quoted, ok = strings.CutPrefix(after, "'"); ok {
			b.WriteByte('\'')
			continue
		}
		rest = strings.TrimLeft(after, " ")
		if rest != "" && rest[0] != ',' {
			return "", "", fmt.Errorf("a comma is missing before %q (a ' inside quotes is written '')", rest)
		}
		return b.String(), rest, nil
	}
}
