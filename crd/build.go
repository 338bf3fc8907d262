package crd

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pintle-go/pintle/internal/jsonfields"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// typeKeys are the keys of directives that can say which JSON a type has.
var typeKeys = []string{"type", "schemaless", "preserveUnknownFields", "embeddedResource"}

// build returns the schema of an object.
func (b *builder) build(t reflect.Type) (*Schema, error) {
	root := b.root(t)
	if len(b.errs) == 0 {
		// The schema would allow such values, and a client could not read them back.
		for _, p := range jsonfields.Problems(t) {
			b.errs = append(b.errs, &fieldError{Type: p.Where, Err: p.Err})
		}
	}
	return root, errors.Join(b.errs...)
}

func (b *builder) root(t reflect.Type) *Schema {
	b.transitions, b.checked, b.faults = map[*Schema]*fieldError{}, map[reflect.Type]bool{}, map[string]bool{}
	b.kindType = t
	b.settle()
	s := b.object(t, b.within(place{}, t), true)
	s.Description = b.typeDescription(t)
	b.checkPackages()
	b.checkTransitions(s, false)
	return s
}

// schema returns the schema of the JSON of a Go type.
func (b *builder) schema(t reflect.Type, at place) *Schema {
	if at.has("schemaless") {
		return b.overridden(cmp.Or(at.override(), "any"), at)
	}
	before := len(b.errs)
	b.declared(t, at)
	s := b.unmarked(t, at)
	// The markers of a struct are applied with its fields.
	plain := t.Kind() != reflect.Struct || jsonfields.Encodes(t) || b.hasTypeMark(t, "schemaless")
	if plain && t.Name() != "" && len(b.errs) == before {
		b.markedType(s, t, at)
	}
	return s
}

// unmarked returns the schema without the effect of the type's markers.
func (b *builder) unmarked(t reflect.Type, at place) *Schema {
	switch {
	case t.Kind() == reflect.Pointer:
		return b.schema(t.Elem(), at)
	case t == reflect.TypeFor[time.Duration]():
		b.fail(at, errors.New("time.Duration is encoded as a number of nanoseconds: use metav1.Duration"))
		return anyValue()
	}
	if s := known(t); s != nil {
		return s
	}
	if f := covered(t); f != "" {
		b.fail(at, fmt.Errorf("%s is encoded as its embedded field %s alone, so its other fields are lost: "+
			"give the field a name, or the struct a MarshalJSON of its own", t, f))
		return anyValue()
	}
	tagged, marked := at.override(), b.typeMark(t)
	free := jsonfields.Encodes(t) || isAny(t)
	switch {
	case b.hasTypeMark(t, "schemaless"):
		return b.overridden(cmp.Or(tagged, marked, "any"), at)
	case free && tagged+marked != "":
		return b.overridden(cmp.Or(tagged, marked), at)
	case tagged != "" && !at.marked(): // a marker is compared with the schema
		b.fail(at, fmt.Errorf("type=%s: the type of %s is already known", tagged, t))
		return anyValue()
	}
	return b.typed(t, at)
}

// typed returns the schema of a type whose JSON no marker or tag names.
func (b *builder) typed(t reflect.Type, at place) *Schema {
	switch s, err := selfDescribed(t); {
	case err != nil && (at.has("embeddedResource") || b.hasTypeMark(t, "embeddedResource")):
		return b.overridden("object", at)
	case err != nil && (at.has("preserveUnknownFields") || b.hasTypeMark(t, "preserveUnknownFields")):
		return anyValue()
	case err != nil:
		b.fail(at, err)
		return anyValue()
	case s != nil:
		return s
	}
	switch t.Kind() {
	case reflect.Struct:
		return b.structure(t, at)
	case reflect.Map:
		return b.mapping(t, at)
	case reflect.Slice, reflect.Array:
		return b.list(t, at)
	case reflect.Interface:
		b.fail(at, fmt.Errorf("the type of the value in interface %s is not known: "+
			"use runtime.RawExtension, any or a struct", t))
		return anyValue()
	}
	if s := scalar(t.Kind()); s != nil {
		return s
	}
	b.fail(at, fmt.Errorf("%s has no JSON form", t))
	return anyValue()
}

func (b *builder) overridden(name string, at place) *Schema {
	switch name {
	case "string", "integer", "number", "boolean":
		return &Schema{Type: name}
	case "object":
		return &Schema{Type: name, PreserveUnknownFields: true}
	case "array":
		return &Schema{Type: name, Items: anyValue()}
	case "int-or-string":
		return intOrString()
	case "any":
		return anyValue()
	}
	b.fail(at, fmt.Errorf("type=%s: want string, integer, number, boolean, object, array, "+
		"int-or-string or any", name))
	return anyValue()
}

func (b *builder) list(t reflect.Type, at place) *Schema {
	if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 && !jsonfields.Encodes(t.Elem()) {
		return &Schema{Type: "string", Format: "byte"}
	}
	s := &Schema{Type: "array", Items: b.schema(t.Elem(), at.element(inItems))}
	if t.Kind() == reflect.Array {
		n := int64(t.Len())
		s.MinItems, s.MaxItems = &n, &n
	}
	if t.Elem() == reflect.TypeFor[metav1.Condition]() {
		s.ListType, s.ListMapKeys = "map", []string{"type"}
	}
	return s
}

func (b *builder) mapping(t reflect.Type, at place) *Schema {
	// A schema says nothing about keys. jsonfields.Problems finds keys that cannot be read back.
	text := implements[encoding.TextMarshaler](t.Key())
	if t.Key().Kind() != reflect.String && !text || text && !implements[encoding.TextUnmarshaler](t.Key()) {
		b.fail(at, fmt.Errorf("the keys of %s must be strings", t))
		return anyValue()
	}
	if isAny(t.Elem()) {
		return &Schema{Type: "object", PreserveUnknownFields: true}
	}
	values := b.schema(t.Elem(), at.element(inValues))
	return &Schema{Type: "object", AdditionalProperties: &SchemaOrBool{Allows: true, Schema: values}}
}

// structure returns the schema of a struct inside the object.
func (b *builder) structure(t reflect.Type, at place) *Schema {
	if t.Name() == "" {
		if alias, _ := b.source.Alias(at.typ + "." + at.fields); alias != "" {
			at.typ, at.fields = alias, "" // its fields have their comments there
		}
		return b.object(t, at, false)
	}
	if i := slices.Index(b.open, t); i >= 0 {
		var cycle []string
		for _, o := range append(b.open[i:], t) {
			cycle = append(cycle, o.String())
		}
		const format = "the type contains itself (%s), and a structural schema cannot: cut it with runtime.RawExtension"
		b.fail(at, fmt.Errorf(format, strings.Join(cycle, " → ")))
		return anyValue()
	}
	s := b.object(t, b.within(at, t), false)
	switch kubernetes := b.kubernetesName(t); {
	case kubernetes == fullName(reflect.TypeFor[metav1.Condition]()):
		constrainCondition(s)
	case kubernetesField(kubernetes, ".").atomic:
		s.MapType = "atomic"
	}
	return s
}

// object returns the schema of a struct: its fields, and the effect of the tags of its
// blank fields.
func (b *builder) object(t reflect.Type, at place, root bool) *Schema {
	b.open = append(b.open, t)
	defer func() { b.open = b.open[:len(b.open)-1] }()
	s := &Schema{Type: "object", Properties: map[string]*Schema{}}
	for _, owner := range jsonfields.Structs(t) {
		b.declared(owner, at)
	}
	members, blanks, errs := b.membersOf(t, at)
	before := len(b.errs)
	b.errs = append(b.errs, errs...)
	for _, m := range members {
		if root && (m.name == "apiVersion" || m.name == "kind" || m.name == "metadata") {
			continue // the server knows them
		}
		where := at
		if m.owner != t {
			where = b.within(at, m.owner)
		}
		b.member(s, m, where, at.path+jsonPathStep(m.name))
	}
	errored := len(b.errs) > before
	for _, m := range blanks {
		where := at
		if m.owner != t {
			where = b.within(at, m.owner)
		}
		b.whole(s, m, where.field("_"), root)
	}
	for _, owner := range jsonfields.Structs(t) {
		where := at
		if owner != t {
			where = b.within(at, owner)
		}
		b.markedUnused(owner, where)
		if owner.Name() != "" && !errored {
			b.markedType(s, owner, where)
		}
	}
	if len(s.Properties) == 0 {
		s.Properties = nil
	}
	return s
}

// member adds a field to the schema of its struct.
func (b *builder) member(parent *Schema, m member, owner place, path string) {
	at := owner.field(m.Name)
	at.path = path
	tag := m.Tag.Get(tagKey)
	kubernetes := b.kubernetesName(m.owner)
	var aliased, directives []directive
	if kubernetes == "" {
		aliased, directives = b.markedField(at)
	}
	if tag != "" {
		tagged, err := parseTag(tag)
		if err != nil {
			b.errs = append(b.errs, at.error(tagKey, tag, err))
			tagged = nil
		}
		directives = append(directives, tagged...)
	}
	if slices.ContainsFunc(directives, func(d directive) bool { return d.key == "schemaless" && len(d.path) == 0 }) {
		aliased = nil
	}
	for _, d := range slices.Concat(aliased, directives) {
		if slices.Contains(typeKeys, d.key) {
			at.types = append(at.types, d)
		}
	}
	if b.markers != nil && owner.fields == "" && b.source.Lacks(at.typ, m.Name) {
		b.fail(at, errors.New("the source lacks the field, so its markers are lost: "+
			"Options.Source must be that of the program"))
	}
	before := len(b.errs)
	s := b.schema(m.Type, at)
	if m.quoted {
		base := m.Type
		if base.Kind() == reflect.Pointer {
			base = base.Elem()
		}
		bits := 64
		if base.Kind() >= reflect.Int && base.Kind() <= reflect.Uintptr {
			bits = base.Bits()
		}
		s = matching("", quotedPattern(base.Kind(), bits))
	}
	if len(b.errs) > before {
		parent.Properties[m.name] = s
		return // its tag would cause misleading errors
	}
	if kubernetes != "" {
		applyTable(s, kubernetesField(kubernetes, m.name))
	} else {
		mergeKeys(s, m)
	}
	s.Description = b.description(m, at)
	optional := m.optional || kubernetes == "" && b.optionalByDefault(at.typ)
	if known, ok := contradicted[kubernetes]; ok {
		optional = slices.Contains(known.optional, m.name) || optional && !slices.Contains(known.required, m.name)
	}
	below := application{b: b, at: at, member: m, schema: s} // of the alias, so it cannot be optional
	below.apply(aliased)
	a := application{b: b, at: at, tag: tag, member: m, schema: s, parent: parent, optional: optional}
	a.apply(directives)
	parent.Properties[m.name] = s
	if !a.optional && s.Default == nil {
		parent.Required = append(parent.Required, m.name)
	}
}

// checkTransitions finds rules that use the old object in places where the API server
// cannot match old and new elements.
func (b *builder) checkTransitions(s *Schema, lost bool) {
	if s == nil {
		return
	}
	if e := b.transitions[s]; e != nil && lost {
		e.Err = errors.New("oldSelf is not defined in a list (unless its listType is map) or in an atomic map, " +
			"so a part of it cannot be immutable by itself: put the rule on the whole list or map")
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
