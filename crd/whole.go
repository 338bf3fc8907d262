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

// markedField returns the directives of a field's markers, and those of the alias that
// the field is declared with.
func (b *builder) markedField(at place) (aliased, own []directive) {
	fail := func(m mark, err error) { b.failMark(at, m, err) }
	name := at.typ + "." + at.fields
	own = markDirectives(b.marks[name], fail)
	for _, ranks := range ranked {
		own = strongest(own, ranks)
	}
	return b.aliasMarks(name, fail), own
}

// ranked are markers that contradict one another, in the order in which controller-gen
// ranks them: the first one has effect.
var ranked = [][]string{
	{"kubebuilder:validation:Optional", "kubebuilder:validation:Required",
		"optional", "k8s:optional", "required", "k8s:required"},
	{"kubebuilder:default", "default"},
}

// strongest drops the markers that others of the same field outrank.
func strongest(list []directive, ranks []string) []directive {
	rank := func(d directive) int {
		name, _, _ := d.mark.name()
		return slices.Index(ranks, name)
	}
	best := len(ranks)
	for _, d := range list {
		if r := rank(d); r >= 0 {
			best = min(best, r)
		}
	}
	return slices.DeleteFunc(list, func(d directive) bool { return rank(d) > best && d.key != "notEmpty" })
}

func (b *builder) failMark(at place, m mark, err error) { b.fail(at, fmt.Errorf("%s: %w", m, err)) }

// markedType applies the markers of a named type to a schema of the type. If the source
// declares it as another type, that type's markers come first, except for those of a
// kind.
func (b *builder) markedType(s *Schema, t reflect.Type, at place) {
	if isKubernetes(t.PkgPath()) {
		return
	}
	at.fields = ""
	for i, name := range slices.Backward(b.names(t)) {
		at.typ = name
		fail := func(m mark, err error) { b.failMark(at, m, err) }
		if len(b.types[name].steps) > 0 { // otherwise the alias is one of the names
			a := application{b: b, at: at, schema: s}
			a.apply(b.aliasMarks(name, fail))
		}
		var own []mark
		for _, m := range b.typeMarks(name) {
			p, ok, err := m.parse()
			ofKind := err == nil && ok && markKeys[p.name] == ""
			switch {
			case !ofKind:
				own = append(own, m)
			case i == 0 && (len(b.open) > 1 || len(b.open) == 1 && b.open[0] != t):
				fail(m, errors.New("the marker is for a kind, and this type is a part of one"))
			}
			// Otherwise it is read with the kind.
		}
		a := application{b: b, at: at, schema: s}
		a.apply(markDirectives(own, fail))
	}
}

// typeDirective returns the directive about a type itself with a key, from its markers.
func (b *builder) typeDirective(t reflect.Type, key string) (directive, bool) {
	if t.Name() == "" || isKubernetes(t.PkgPath()) {
		return directive{}, false
	}
	for _, name := range b.names(t) {
		for _, d := range markDirectives(b.typeMarks(name), func(mark, error) {}) {
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
	return slices.ContainsFunc(b.marks[packageOf(typ)], func(m mark) bool {
		return m.text == "kubebuilder:validation:Optional"
	})
}
