package crd

import (
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/pintle-go/pintle/crd/internal/source"
	"github.com/pintle-go/pintle/internal/jsonfields"
)

// Beside its own tag a field can have the tags of markers: those of the field, of its type
// and of the types that its type is declared as. This file finds them in the source.

// tags returns the directives of the tags that [Options].Markers gives for markers. It
// calls fail for each wrong marker. The definition is nil if the markers are not those of a
// kind.
func (b *builder) tags(markers []source.Marker, kind *Definition, fail func(source.Marker, error)) (list []directive) {
	if b.markers == nil || len(markers) == 0 {
		return nil
	}
	texts := make([]string, len(markers))
	for i, m := range markers {
		texts[i] = m.Text
	}
	i := 0
	for text, err := range b.markers(texts, kind) {
		m := &markers[i]
		i++
		var found []directive
		if err == nil && text != "" {
			found, err = parseTag(text)
		}
		if err != nil {
			fail(*m, err)
		}
		for _, d := range found {
			d.mark = m
			list = append(list, d)
		}
	}
	return list
}

// markedField returns the directives of a field's markers, and those of the alias that
// the field is declared with.
func (b *builder) markedField(at place) (aliased, own []directive) {
	fail := func(m source.Marker, err error) { b.failMark(at, m, err) }
	name := at.typ + "." + at.fields
	return b.aliasTags(name, fail), b.tags(b.source.Markers(name), nil, fail)
}

// aliasTags returns the directives of the alias that a field or type is declared with, as
// directives for the field or type.
func (b *builder) aliasTags(name string, fail func(source.Marker, error)) []directive {
	alias, steps := b.source.Alias(name)
	list := b.tags(b.source.Markers(alias), nil, fail)
	for i := range list {
		list[i].path = slices.Concat(steps, list[i].path)
	}
	return list
}

// markedType applies the markers of a named type to a schema of the type. If the source
// declares it as another type, that type's markers come first, except for those of a
// kind.
func (b *builder) markedType(s *Schema, t reflect.Type, at place) {
	if isKubernetes(t.PkgPath()) {
		return
	}
	at.fields = ""
	for i, name := range slices.Backward(b.source.Names(docName(t))) {
		at.typ = name
		fail := func(m source.Marker, err error) { b.failMark(at, m, err) }
		if _, steps := b.source.Alias(name); len(steps) > 0 { // otherwise the alias is one of the names
			a := application{b: b, at: at, schema: s}
			a.apply(b.aliasTags(name, fail))
		}
		kind := draft() // the markers of a kind that the type is declared as have no effect
		switch isPart := len(b.open) > 1 || len(b.open) == 1 && b.open[0] != t; {
		case i == 0 && isPart:
			kind = nil
		case i == 0:
			kind = b.kind
		}
		a := application{b: b, at: at, schema: s}
		a.apply(b.tags(b.source.Markers(name), kind, fail))
	}
}

// typeDirective returns the directive about a type itself with a key, from its markers.
func (b *builder) typeDirective(t reflect.Type, key string) (directive, bool) {
	if t.Name() == "" || isKubernetes(t.PkgPath()) {
		return directive{}, false
	}
	for _, name := range b.source.Names(docName(t)) {
		for _, d := range b.tags(b.source.Markers(name), draft(), func(source.Marker, error) {}) {
			if d.key == key && len(d.path) == 0 {
				return d, true
			}
		}
	}
	return directive{}, false
}

// typeMark returns the JSON type that a marker of a type sets, or "".
func (b *builder) typeMark(t reflect.Type) string {
	d, _ := b.typeDirective(t, "type")
	return d.value
}

func (b *builder) hasTypeMark(t reflect.Type, key string) bool {
	_, ok := b.typeDirective(t, key)
	return ok
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
		_, own := b.markedField(where)
		for _, d := range own {
			if d.key != "optional" && d.key != "required" {
				b.failMark(where, *d.mark, errors.New("the field is embedded: put the marker on its type"))
			}
		}
	}
}

// optionalByDefault reports whether a marker of the package makes its fields optional.
func (b *builder) optionalByDefault(typ string) bool {
	pkg, _, _ := strings.Cut(typ, ".")
	tags := b.tags(b.source.Markers(pkg), nil, func(source.Marker, error) {})
	return slices.ContainsFunc(tags, func(d directive) bool { return d.key == "optional" })
}

// kubernetesName returns the full name of the type of Kubernetes that t is, or that the
// source declares it as. It returns "" for all other types.
func (b *builder) kubernetesName(t reflect.Type) string {
	if isKubernetes(t.PkgPath()) {
		return fullName(t)
	}
	for path, name := range b.source.Foreign(docName(t)) {
		if isKubernetes(path) {
			return path + "." + name
		}
	}
	return ""
}
