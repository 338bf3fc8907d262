package crd

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/pintle-go/pintle/internal/jsonfields"
)

// whole applies the tag of a blank field to the schema of its struct.
func (b *builder) whole(s *Schema, m member, at place, root bool) {
	tag := m.Tag.Get(tagKey)
	directives, err := parseTag(tag)
	if err != nil {
		b.errs = append(b.errs, at.error(tagKey, tag, err))
		return
	}
	a := application{b: b, at: at, tag: tag, member: m, schema: s, rules: map[*Schema]int{}}
	allowed := []string{"rule", "message", "messageExpression", "reason", "fieldPath", "optionalOldSelf",
		"minProperties", "maxProperties", "mapType", "preserveUnknownFields", "description", "deprecated"}
	for _, d := range directives {
		err := errors.New("it does not apply to a struct as a whole")
		switch {
		case len(d.path) > 0 || !slices.Contains(allowed, d.key):
		case d.key == "deprecated" && root:
			b.deprecated, err = &d.value, nil
		default:
			err = a.one(d, s)
		}
		if err != nil {
			a.failed(d, err)
		}
	}
	if err := s.consistent(); err != nil {
		a.fail(err)
	}
}

// markedField returns the directives of a field's markers.
func (b *builder) markedField(at place) []directive {
	return markDirectives(b.marks[at.typ+"."+at.fields], func(m mark, err error) { b.failMark(at, m, err) })
}

func (b *builder) failMark(at place, m mark, err error) { b.fail(at, fmt.Errorf("%s: %w", m, err)) }

// markedType applies the markers of a named type to a schema of the type.
func (b *builder) markedType(s *Schema, t reflect.Type, at place) {
	if isKubernetes(t) {
		return
	}
	name := docName(t)
	at.typ, at.fields = name, ""
	var list []directive
	for _, m := range b.marks[name] {
		p, ok, err := m.parse()
		if err == nil && ok && markKeys[p.name] == "" {
			if len(b.open) > 1 || len(b.open) == 1 && b.open[0] != t {
				b.failMark(at, m, errors.New("the marker is for a kind, and this type is a part of one"))
			}
			continue // it is read with the kind
		}
		list = append(list, markDirectives([]mark{m}, func(m mark, err error) { b.failMark(at, m, err) })...)
	}
	a := application{b: b, at: at, schema: s, rules: map[*Schema]int{}}
	a.apply(list)
}

// markedEmbedded refuses markers of embedded fields, because an embedded field has no
// schema of its own.
func (b *builder) markedEmbedded(owner reflect.Type, at place) {
	for i := range owner.NumField() {
		f := owner.Field(i)
		if jsonfields.Embedded(f) == nil {
			continue
		}
		where := at.field(f.Name)
		for _, d := range b.markedField(where) {
			if d.key != "optional" && d.key != "required" {
				b.failMark(where, *d.mark, errors.New("the field is embedded: put the marker on its type"))
			}
		}
	}
}

// optionalByDefault reports whether a marker of the package makes its fields optional.
func (b *builder) optionalByDefault(t reflect.Type) bool {
	return slices.ContainsFunc(b.marks[packageName(t)], func(m mark) bool {
		return m.text == "kubebuilder:validation:Optional"
	})
}

// typeMark returns the JSON type that a marker of a type sets, or "".
func (b *builder) typeMark(t reflect.Type) string {
	if t.Name() == "" || isKubernetes(t) {
		return ""
	}
	for _, d := range markDirectives(b.marks[docName(t)], func(mark, error) {}) {
		if d.key == "type" && len(d.path) == 0 {
			return d.value
		}
	}
	return ""
}
